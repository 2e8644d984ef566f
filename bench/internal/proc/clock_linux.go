package proc

import (
	"syscall"
	"time"
	"unsafe"
)

// processTime reads the CPU clock of another process. It is what clock_getcpuclockid(3) and clock_gettime(2) do: the
// clock of process P is the complement of P shifted left by 3, with kind 2 (scheduler time) in the low bits.
func processTime(pid int) (time.Duration, error) {
	const schedulerTime = 2
	clock := uintptr(int32(^pid)<<3 | schedulerTime)
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		return 0, errno
	}
	return time.Duration(now.Nano()), nil
}
