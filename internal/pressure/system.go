package pressure

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/procfs"
)

// TotalMemory returns how many bytes the process may have: the limit of its control group if that is lower than what the
// machine has.
func TotalMemory() (uint64, error) {
	machine, err := memlimit.FromSystem()
	if err != nil {
		return 0, fmt.Errorf("reading the machine's memory: %w", err)
	}
	if group, err := memlimit.FromCgroup(); err == nil {
		return min(group, machine), nil
	}
	return machine, nil
}

// ResidentMemory returns the bytes of the process that are in memory: its resident set.
func ResidentMemory() (uint64, error) {
	self, err := procfs.Self()
	if err != nil {
		return 0, fmt.Errorf("reading memory in use: %w", err)
	}
	stat, err := self.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading memory in use: %w", err)
	}
	return uint64(max(stat.ResidentMemory(), 0)), nil
}

// MaxFiles returns how many files the process may have open.
func MaxFiles() (uint64, error) {
	self, err := procfs.Self()
	if err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	limits, err := self.Limits()
	if err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return limits.OpenFiles, nil
}

// OpenFiles returns how many files the process has open. If there is not even one left for reading that, it is more than
// any limit.
func OpenFiles() (uint64, error) {
	self, err := procfs.Self()
	if err == nil {
		var n int
		if n, err = self.FileDescriptorsLen(); err == nil {
			return uint64(n), nil
		}
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return math.MaxUint32, nil
	}
	return 0, fmt.Errorf("counting open files: %w", err)
}
