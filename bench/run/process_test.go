package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestHelper is no test by itself: it is the program that TestLaunch starts, which ends after a failure or a signal.
func TestHelper(t *testing.T) {
	switch os.Getenv("BENCH_TEST_HELPER") {
	case "fail":
		os.Stderr.WriteString("no such upstream\n")
		os.Exit(3)
	case "wait":
		<-time.After(time.Minute)
	}
}

func newTestLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{dir: t.TempDir(), ports: &ports{next: firstPort}, start: time.Now()}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	})
	return l
}

func TestLaunchReportsEarlyEnd(t *testing.T) {
	l := newTestLab(t)
	t.Setenv("BENCH_TEST_HELPER", "fail")
	addr, err := l.ports.take()
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.launch(t.Context(), "helper", addr, []string{os.Args[0], "-test.run=TestHelper"})
	if err == nil || !strings.Contains(err.Error(), "no such upstream") {
		t.Errorf("got %v, want the program's own words", err)
	}
	if len(l.started) != 0 {
		t.Errorf("got %d processes on the books, want none", len(l.started))
	}
}

func TestStop(t *testing.T) {
	l := newTestLab(t)
	t.Setenv("BENCH_TEST_HELPER", "wait")
	command := []string{os.Args[0], "-test.run=TestHelper"}
	stopped, err := l.launch(t.Context(), "stopped", "", command)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.stop(stopped, stopped); err != nil { // a second stop is harmless
		t.Errorf("stop: got %v, want nil", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled, err := l.launch(ctx, "cancelled", "", command)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, p := range []*process{stopped, cancelled} {
		select {
		case <-p.exited:
		case <-time.After(stopTimeout):
			t.Errorf("%s: still running, want it ended", p.name)
		}
	}
}
