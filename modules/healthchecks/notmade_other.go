//go:build !windows

package healthchecks

import "syscall"

// shortages are the errors of a machine that has no open file, no memory or no port left for a connection.
var shortages = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}
