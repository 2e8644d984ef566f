package relay

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// privilegedPipes bounds the pipes of a process that the quota does not bind.
	privilegedPipes = 256 << 20
	// What Linux has, if /proc doesn't say: pipe(7).
	defaultQuotaPages  = 16384
	defaultLargestPipe = 1 << 20
	// nofileShare is the part of the open files that pipes may be; each is two.
	nofileShare = 8
)

// pipeLimits bounds a pool.
type pipeLimits struct {
	// bytes bounds the sizes of all pipes together, count their number, largest the size of one.
	bytes, count, largest int
}

// readPipeLimits derives the limits from those of the kernel. The quota counts the pages of all pipes of a user; a
// quarter of it is left to the user's other pipes.
func readPipeLimits() pipeLimits {
	pages := readNumber("/proc/sys/fs/pipe-user-pages-soft", defaultQuotaPages)
	bytes := min(pages, privilegedPipes/os.Getpagesize()) * os.Getpagesize() / 4 * 3
	if pages == 0 || privileged() {
		bytes = privilegedPipes
	}
	return pipeLimits{
		bytes:   bytes,
		count:   maxFiles() / nofileShare / 2,
		largest: readNumber("/proc/sys/fs/pipe-max-size", defaultLargestPipe),
	}
}

// privileged reports whether the quota does not bind this process. It may be wrong in a user namespace; then the kernel
// refuses, and the pool makes do with what it got.
func privileged() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(status, []byte("\nCapEff:\t"))
	field, _, _ := bytes.Cut(after, []byte("\n"))
	caps, err := strconv.ParseUint(string(field), 16, 64)
	return err == nil && caps&(1<<unix.CAP_SYS_RESOURCE|1<<unix.CAP_SYS_ADMIN) != 0
}

func maxFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30))
}

func readNumber(file string, missing int) int {
	b, err := os.ReadFile(file)
	if err != nil {
		return missing
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil {
		return missing
	}
	return n
}
