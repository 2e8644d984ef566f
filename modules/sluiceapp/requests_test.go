package sluiceapp

import (
	"errors"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/pressure"
	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/modules/session"
)

// rejectedName is the name of the counter of refused requests.
const rejectedName = "caddy_sluice_admission_requests_rejected_total "

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// TestRequestGates checks the gates of the process, their order, and that a refusal takes nothing.
func TestRequestGates(t *testing.T) {
	full := func() (uint64, error) { return 9, nil }
	for _, tc := range []struct {
		name    string
		prepare func(*App)
		limits  RequestLimits
		want    session.CloseReason
	}{
		{"no_limit", func(*App) {}, RequestLimits{}, session.Open},
		{"H03_memory", func(a *App) { a.gates.memory = pressure.NewMemory(full) }, RequestLimits{}, session.AdmissionMemory},
		{"memory_at_the_limit", func(a *App) { a.gates.memory, a.gates.memoryLimit = pressure.NewMemory(full), 9 }, RequestLimits{}, session.Open},
		{"memory_unreadable", func(a *App) {
			a.gates.memory = pressure.NewMemory(func() (uint64, error) { return 0, errors.New("unreadable") })
		}, RequestLimits{}, session.AdmissionMemory},
		{"open_files", func(a *App) { a.gates.files, a.gates.filesLimit = pressure.NewFiles(full), 10 }, RequestLimits{}, session.AdmissionOpenFiles},
		{"memory_before_files", func(a *App) {
			a.gates.memory, a.gates.files, a.gates.filesLimit = pressure.NewMemory(full), pressure.NewFiles(full), 10
		}, RequestLimits{}, session.AdmissionMemory},
		{"files_before_process", func(a *App) {
			a.gates.files, a.gates.filesLimit, a.gates.maxRequests = pressure.NewFiles(full), 10, 1
			a.state.requests.TryAcquire(1, 0)
		}, RequestLimits{}, session.AdmissionOpenFiles},
		{"H04_process_before_server", func(a *App) {
			a.gates.maxRequests = 1
			a.state.requests.TryAcquire(1, 0)
			a.state.serverRequests.TryAcquire("s", 0)
		}, RequestLimits{Server: "s", PerServer: 1}, session.AdmissionProcess},
		{"server_before_client", func(a *App) {
			a.state.serverRequests.TryAcquire("s", 0)
			a.state.clientRequests.TryAcquire(source{"s", addr("192.0.2.1")}, 0)
		}, RequestLimits{Server: "s", PerServer: 1, PerClient: 1}, session.AdmissionListener},
		{"client", func(a *App) {
			a.state.clientRequests.TryAcquire(source{"s", addr("192.0.2.1")}, 0)
		}, RequestLimits{Server: "s", PerServer: 1, PerClient: 1}, session.AdmissionSourceIP},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, logs := load(t, `{}`)
			a.state = new(state) // of its own, to be left in any state
			tc.prepare(a)
			process, server := a.state.requests.Load(), a.state.serverRequests.Load("s")
			before := counts.Of(t, Register)
			p, gate := a.AdmitRequest(&tc.limits, addr("192.0.2.1"), false)
			if gate != tc.want {
				t.Errorf("got %v, want %v", gate, tc.want)
			}
			want, lines := counts.Counts{}, 0
			if tc.want != session.Open {
				want[rejectedName+gateName(tc.want)], lines = 1, 1
			}
			if got := counts.Of(t, Register).Since(before); !maps.Equal(got, want) {
				t.Errorf("metrics: got %v, want %v", got, want)
			}
			for _, message := range []string{"refusing requests", "request not admitted"} {
				if got := logs.FilterMessage(message).Len(); got != lines {
					t.Errorf("%s: got %d lines, want %d", message, got, lines)
				}
			}
			p.Release()
			p.Release()
			if a.state.requests.Load() != process || a.state.serverRequests.Load("s") != server {
				t.Errorf("got %d and %d held, want %d and %d", a.state.requests.Load(), a.state.serverRequests.Load("s"), process, server)
			}
		})
	}
}

// TestRequestsNeedNoFilesInAdvance checks that many requests between two counts of open files don't close the gate, and
// that a connection's two files are still left for connections.
func TestRequestsNeedNoFilesInAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := load(t, `{}`)
		a.gates.files, a.gates.filesLimit = pressure.NewFiles(func() (uint64, error) { return 8, nil }), 10
		for i := range 100 {
			p, gate := a.AdmitRequest(&RequestLimits{}, netip.Addr{}, false)
			if gate != session.Open {
				t.Fatalf("request %d: got %v", i, gate)
			}
			p.Release()
		}
		if got := a.gates.files.Take(time.Now(), 10); got != pressure.Room {
			t.Errorf("connection: got %v", got)
		}
		if got := a.gates.files.Ask(time.Now(), 10); got != pressure.Full {
			t.Errorf("request after it: got %v", got)
		}
	})
}

// TestRequestAdmittedBefore checks that the gates of the process count a request once.
func TestRequestAdmittedBefore(t *testing.T) {
	a, _ := load(t, `{"admission":{"max_requests":1}}`)
	outer, gate := a.AdmitRequest(&RequestLimits{}, netip.Addr{}, false)
	if gate != session.Open {
		t.Fatal(gate)
	}
	inner, gate := a.AdmitRequest(&RequestLimits{Server: "s", PerServer: 1}, netip.Addr{}, true)
	if gate != session.Open {
		t.Fatal(gate)
	}
	inner.Release()
	if got := a.state.requests.Load(); got != 1 {
		t.Errorf("got %d, want the outer one's permit", got)
	}
	outer.Release()
	if got := a.state.requests.Load(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}

// TestRequestClients checks who is one client, and that servers count apart.
func TestRequestClients(t *testing.T) {
	a, _ := load(t, `{}`)
	limits := RequestLimits{Server: "s", PerClient: 1, Prefix6: 64}
	other := RequestLimits{Server: "other", PerClient: 1, Prefix6: 64}
	for _, tc := range []struct {
		limits *RequestLimits
		client string
		want   session.CloseReason
	}{
		{&limits, "192.0.2.1", session.Open},
		{&limits, "::ffff:192.0.2.1", session.AdmissionSourceIP},
		{&limits, "192.0.2.2", session.Open},
		{&limits, "2001:db8::1", session.Open},
		{&limits, "2001:db8::2", session.AdmissionSourceIP},
		{&limits, "2001:db8:0:1::1", session.Open},
		{&other, "192.0.2.1", session.Open},
	} {
		p, gate := a.AdmitRequest(tc.limits, addr(tc.client), false)
		defer p.Release()
		if gate != tc.want {
			t.Errorf("%s at %s: got %v, want %v", tc.client, tc.limits.Server, gate, tc.want)
		}
	}
	for range 2 {
		p, gate := a.AdmitRequest(&limits, netip.Addr{}, false)
		defer p.Release()
		if gate != session.Open {
			t.Errorf("no address: got %v", gate)
		}
	}
}

// TestRequestsInACrowd checks that never more than the limit of each kind are let in, and that nothing is left.
func TestRequestsInACrowd(t *testing.T) {
	a, _ := load(t, `{"admission":{"max_requests":6}}`)
	limits := RequestLimits{Server: "s", PerServer: 4, PerClient: 3}
	var inside, granted atomic.Int64
	var done sync.WaitGroup
	for range 16 {
		done.Go(func() {
			for range 500 {
				p, gate := a.AdmitRequest(&limits, addr("192.0.2.1"), false)
				if gate != session.Open {
					continue
				}
				granted.Add(1)
				if got := inside.Add(1); got > 3 {
					t.Errorf("got %d inside, want 3 at most", got)
				}
				inside.Add(-1)
				p.Release()
			}
		})
	}
	done.Wait()
	if granted.Load() == 0 {
		t.Error("got nobody in")
	}
	s := a.state
	if s.requests.Load() != 0 || s.serverRequests.Len() != 0 || s.clientRequests.Len() != 0 {
		t.Errorf("left: %d, %d, %d", s.requests.Load(), s.serverRequests.Len(), s.clientRequests.Len())
	}
}

// TestLimitsOutliveTheConfig checks that requests count under the next config.
func TestLimitsOutliveTheConfig(t *testing.T) {
	a, _ := load(t, `{"admission":{"max_requests":1}}`)
	p, gate := a.AdmitRequest(&RequestLimits{}, netip.Addr{}, false)
	if gate != session.Open {
		t.Fatal(gate)
	}
	next, _ := load(t, `{"admission":{"max_requests":1}}`)
	if _, gate := next.AdmitRequest(&RequestLimits{}, netip.Addr{}, false); gate != session.AdmissionProcess {
		t.Errorf("got %v, want %v", gate, session.AdmissionProcess)
	}
	p.Release()
	p, gate = next.AdmitRequest(&RequestLimits{}, netip.Addr{}, false)
	defer p.Release()
	if gate != session.Open {
		t.Errorf("after the release: got %v", gate)
	}
}

// TestRequestsDontAllocate checks the cost of a request that is let in.
func TestRequestsDontAllocate(t *testing.T) {
	a, _ := load(t, `{"admission":{"max_requests":100}}`)
	limits, client := RequestLimits{Server: "s", PerServer: 10, PerClient: 10, Prefix6: 64}, addr("2001:db8::1")
	hold, _ := a.AdmitRequest(&limits, client, false) // the maps are there
	defer hold.Release()
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := a.AdmitRequest(&limits, client, false)
		p.Release()
	}); n > 0.1 { // counting open files, now and then, allocates
		t.Errorf("got %v allocations, want 0", n)
	}
}
