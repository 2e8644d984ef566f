package offstack

import (
	"strings"
	"testing"
)

func TestCall(t *testing.T) {
	ran := false
	Call(func() { ran = true })
	if !ran {
		t.Error("the function has not run when Call returns")
	}
}

// A panic arrives at the caller, where it can be recovered, and says where it was.
func TestCallPanics(t *testing.T) {
	defer func() {
		p, _ := recover().(string)
		if !strings.HasPrefix(p, "boom\n") || !strings.Contains(p, "TestCallPanics") {
			t.Errorf("got %q, want the value and the stack of the function", p)
		}
	}()
	Call(func() { panic("boom") })
	t.Error("Call returned")
}
