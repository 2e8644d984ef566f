package proc

import (
	"os"
	"slices"
	"testing"
	"time"
)

// TestOwnProcess burns CPU until the exact clock of this process has moved, then checks it against the coarse one.
func TestOwnProcess(t *testing.T) {
	self := []int{os.Getpid()}
	before, err := ReadCPU(self)
	if err != nil {
		t.Fatal(err)
	}
	var used CPU
	for deadline := time.Now().Add(time.Minute); used.Total < 50*time.Millisecond; {
		if time.Now().After(deadline) {
			t.Fatalf("the CPU clock did not move: got %v, want 50ms", used.Total)
		}
		now, err := ReadCPU(self)
		if err != nil {
			t.Fatal(err)
		}
		used = now.Sub(before)
	}
	if coarse := used.User + used.System; (coarse - used.Total).Abs() > 3*tick {
		t.Errorf("got %v by ticks and %v by the clock, want them within %v", coarse, used.Total, 3*tick)
	}
	memory, err := ReadMemory(self)
	if err != nil || memory.RSS < 1<<20 || memory.Descriptors < 3 {
		t.Errorf("got %+v, %v, want at least 1 MiB and 3 descriptors", memory, err)
	}
	if parent := Tree(os.Getppid()); !slices.Contains(parent, os.Getpid()) {
		t.Errorf("got %v as the parent's tree, want it to hold %d", parent, os.Getpid())
	}
	if slab, err := Slab(); err != nil || slab <= 0 {
		t.Errorf("got slab %d, %v, want more than 0", slab, err)
	}
}
