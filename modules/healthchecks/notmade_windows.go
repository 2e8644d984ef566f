package healthchecks

import "syscall"

// shortages are the errors of a machine that has no socket, no buffer or no port left for a connection: WSAEMFILE,
// WSAENOBUFS and WSAEADDRNOTAVAIL, and what Go makes of them.
var shortages = []syscall.Errno{10024, 10055, 10049, syscall.EMFILE, syscall.ENOBUFS, syscall.EADDRNOTAVAIL}
