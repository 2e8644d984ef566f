package sluiceapp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/pressure"
	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	client = "192.0.2.1:50000"
	local  = "10.0.0.1:443"
)

// load provisions the app, with a logger whose entries can be looked at.
func load(t testing.TB, config string) (*App, *observer.ObservedLogs) {
	t.Helper()
	mod, err := modules.Load(t, appName, config)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	app := mod.(*App)
	app.logger = zap.New(core)
	return app, logs
}

// within calls f with the session of a new connection, and has it ended afterwards. A panic of f goes no further.
func within(t testing.TB, f func(*session.Session)) (sess *session.Session) {
	t.Helper()
	sess = session.Enter(conns.New(t, client, local))
	defer sess.Leave(zap.NewNop())
	f(sess)
	return sess
}

// rejections are the refusals by gate since before.
func rejections(t testing.TB, before counts.Counts) counts.Counts {
	t.Helper()
	return counts.Of(t, Register).Since(before)
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct{ config, err string }{
		{`{}`, ""},
		{`{"admission":{}}`, ""},
		{`{"admission":{"max_connections":1,"memory_limit":"16MiB","open_files_reserve":"0","failure_mode":"open"}}`, ""},
		{`{"admission":{"max_connections":10000000,"memory_limit":"80%","open_files_reserve":"5%","failure_mode":"closed"}}`, ""},
		{`{"admission":{"max_connections":-1}}`, "admission.max_connections: -1 is out of range, 1 to 10000000"},
		{`{"admission":{"max_connections":10000001}}`, "admission.max_connections: 10000001 is out of range"},
		{`{"admission":{"max_requests":-1}}`, "admission.max_requests: -1 is out of range, 1 to 10000000"},
		{`{"admission":{"max_requests":10000001}}`, "admission.max_requests: 10000001 is out of range"},
		{`{"admission":{"max_requests":10000000}}`, ""},
		{`{"admission":{"memory_limit":"much"}}`, `admission.memory_limit: "much" is neither a size`},
		{`{"admission":{"memory_limit":"101%"}}`, "admission.memory_limit: "},
		{`{"admission":{"open_files_reserve":"-1"}}`, "admission.open_files_reserve: "},
		{`{"admission":{"open_files_reserve":"60%"}}`, "admission.open_files_reserve: "},
		{`{"admission":{"open_files_reserve":"9000000000000000000"}}`, "admission.open_files_reserve: 9000000000000000000 is out of range"},
		{`{"admission":{"failure_mode":"ajar"}}`, `admission.failure_mode: "ajar" is not known; must be one of open, closed`},
		{`{"shutdown_grace":"-1s"}`, "shutdown_grace: "},
		{`{"shutdown_grace":"61m"}`, "shutdown_grace: "},
		{`{"preread_memory":1048575}`, "preread_memory: 1048575 is out of range"},
		{`{"preread_memory":68719476737}`, "preread_memory: 68719476737 is out of range"},
		{`{"preread_memory":1048576,"shutdown_grace":0,"guard":"strict"}`, ""},
		{`{"guard":"some"}`, "some"},
	} {
		_, err := modules.Load(t, appName, tc.config)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.err)
		}
	}
}

// TestAdmit checks what each gate does, and that all is given back.
func TestAdmit(t *testing.T) {
	reading := func(value uint64) func() (uint64, error) {
		return func() (uint64, error) { return value, nil }
	}
	unreadable := func() (uint64, error) { return 0, errors.New("unreadable") }
	for _, tc := range []struct {
		name    string
		prepare func(*App)
		want    session.CloseReason
	}{
		{"T36_no_limit", func(*App) {}, session.Open},
		{"T36_memory_at_the_limit", func(a *App) { a.gates.memory, a.gates.memoryLimit = pressure.NewMemory(reading(9)), 9 }, session.Open},
		{"T36_memory_over_the_limit", func(a *App) { a.gates.memory, a.gates.memoryLimit = pressure.NewMemory(reading(9)), 8 }, session.AdmissionMemory},
		{"T62_memory_unreadable", func(a *App) { a.gates.memory = pressure.NewMemory(unreadable) }, session.AdmissionMemory},
		{"T61_memory_unreadable_open", func(a *App) { a.gates.memory, a.gates.failOpen = pressure.NewMemory(unreadable), true }, session.Open},
		{"files_within_the_limit", func(a *App) { a.gates.files, a.gates.filesLimit = pressure.NewFiles(reading(8)), 10 }, session.Open},
		{"files_over_the_limit", func(a *App) { a.gates.files, a.gates.filesLimit = pressure.NewFiles(reading(9)), 10 }, session.AdmissionOpenFiles},
		{"files_off", func(a *App) { a.gates.files = nil }, session.Open},
		{"memory_comes_first", func(a *App) {
			a.gates.memory = pressure.NewMemory(reading(9))
			a.gates.files = pressure.NewFiles(reading(9))
		}, session.AdmissionMemory},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, logs := load(t, `{}`)
			tc.prepare(a)
			before := counts.Of(t, Register)
			within(t, func(sess *session.Session) {
				if got := a.Admit(sess); got != (tc.want == session.Open) || sess.CloseReason() != tc.want {
					t.Errorf("got %v, %v, want %v", got, sess.CloseReason(), tc.want)
				}
				if again := a.Admit(sess); again != (tc.want == session.Open) {
					t.Errorf("asked again: got %v", again)
				}
				if held := a.state.process.Load(); held != 0 != (tc.want == session.Open) || held > 1 {
					t.Errorf("got %d permits held", held)
				}
			})
			want := counts.Counts{}
			if tc.want != session.Open {
				want["caddy_sluice_admission_rejected_total "+gateName(tc.want)] = 1
				if got := logs.FilterMessage("connection not admitted").Len(); got != 1 {
					t.Errorf("got %d debug lines, want 1", got)
				}
			}
			if got := rejections(t, before); !maps.Equal(got, want) {
				t.Errorf("metrics: got %v, want %v", got, want)
			}
		})
	}
}

// TestUnreadableIsToldOnce checks that an operator is told, and not for each connection.
func TestUnreadableIsToldOnce(t *testing.T) {
	a, logs := load(t, `{"admission":{"failure_mode":"open"}}`)
	a.gates.memory = pressure.NewMemory(func() (uint64, error) { return 0, errors.New("unreadable") })
	for range 3 {
		within(t, func(sess *session.Session) { a.Admit(sess) })
	}
	warnings := logs.FilterLevelExact(zap.WarnLevel).All()
	if len(warnings) != 1 || warnings[0].ContextMap()["gate"] != "memory" || warnings[0].ContextMap()["refusing"] != false {
		t.Errorf("got %v, want one warning", warnings)
	}
}

// TestProcessConnections checks the count across connections and configs.
func TestProcessConnections(t *testing.T) {
	a, _ := load(t, `{"admission":{"max_connections":1}}`)
	wider, _ := load(t, `{"admission":{"max_connections":2}}`)
	within(t, func(first *session.Session) {
		if !a.Admit(first) {
			t.Fatal("first: got a refusal")
		}
		second := within(t, func(sess *session.Session) { a.Admit(sess) })
		if got := second.CloseReason(); got != session.AdmissionProcess {
			t.Errorf("second: got %v, want a refusal", got)
		}
		within(t, func(sess *session.Session) {
			if !wider.Admit(sess) {
				t.Error("second, under the next config: got a refusal")
			}
		})
		if got := counts.Of(t, Register)["caddy_sluice_admission_connections"]; got != 1 {
			t.Errorf("gauge: got %v, want 1", got)
		}
	})
	within(t, func(sess *session.Session) {
		if !a.Admit(sess) {
			t.Error("T34 after the first has left: got a refusal")
		}
	})
	if got := a.state.process.Load(); got != 0 {
		t.Errorf("got %d permits held, want 0", got)
	}
}

// TestEndedIsNotAdmitted checks that a session which was stopped takes nothing.
func TestEndedIsNotAdmitted(t *testing.T) {
	a, logs := load(t, `{}`)
	before := counts.Of(t, Register)
	sess := within(t, func(sess *session.Session) {
		sess.End(session.Killed)
		if a.Admit(sess) {
			t.Error("got an admission")
		}
		a.Refuse(sess, session.AdmissionProcess)
	})
	if got := rejections(t, before); len(got) > 0 || sess.CloseReason() != session.Killed || logs.Len() > 0 {
		t.Errorf("got %v, %v, %d log lines, want nothing", got, sess.CloseReason(), logs.Len())
	}
}

// TestT49_PermitsComeBack takes all permits on many goroutines, on every way out of a handler, and checks that the counts
// end at zero.
func TestT49_PermitsComeBack(t *testing.T) {
	a, _ := load(t, `{"admission":{"max_connections":4}}`)
	outcomes := []func(*session.Session){
		func(s *session.Session) { s.End(session.Completed) },
		func(s *session.Session) { s.End(session.ConnectFailure) },
		func(*session.Session) { panic("a fault") },
		func(s *session.Session) { s.End(session.HandedOver) },
		func(s *session.Session) { s.Stop(session.Killed) },
		func(*session.Session) {},
	}
	var wg sync.WaitGroup
	for _, outcome := range outcomes {
		wg.Go(func() {
			for range 200 {
				sess := within(t, func(sess *session.Session) {
					if a.Admit(sess) && takes(a, sess) {
						outcome(sess)
					}
				})
				if sess.CloseReason() == session.HandedOver {
					sess.Closed(0, 0)
				}
			}
		})
	}
	wg.Wait()
	if s := a.state; s.process.Load() != 0 || s.listeners.Len() != 0 || s.sources.Len() != 0 {
		t.Errorf("got %d, %d, %d, want nothing held", s.process.Load(), s.listeners.Len(), s.sources.Len())
	}
}

// takes asks the two other gates.
func takes(a *App, sess *session.Session) bool {
	if !a.TakeListener(sess, "listener", 3) {
		a.Refuse(sess, session.AdmissionListener)
		return false
	}
	if !a.TakeSource(sess, "listener", 2, 64) {
		a.Refuse(sess, session.AdmissionSourceIP)
		return false
	}
	return true
}

// TestHandedOverCounts checks that a connection counts while Caddy's HTTP app has it.
func TestHandedOverCounts(t *testing.T) {
	a, _ := load(t, `{}`)
	sess := within(t, func(sess *session.Session) {
		a.Admit(sess)
		sess.End(session.HandedOver)
	})
	if got := a.state.process.Load(); got != 1 {
		t.Errorf("handed over: got %d permits held, want 1", got)
	}
	sess.Closed(1, 2)
	if got := a.state.process.Load(); got != 0 {
		t.Errorf("closed: got %d permits held, want 0", got)
	}
}

func TestPrereadMemory(t *testing.T) {
	a, _ := load(t, `{"preread_memory":1048576}`)
	if !a.TakePreread(1<<20) || a.TakePreread(1) {
		t.Error("got another limit than 1 MiB")
	}
	if got := counts.Of(t, Register)["caddy_sluice_preread_memory_bytes"]; got != 1<<20 {
		t.Errorf("gauge: got %v, want 1 MiB", got)
	}
	a.GivePreread(1 << 20)
	if got := counts.Of(t, Register)["caddy_sluice_preread_memory_bytes"]; got != 0 {
		t.Errorf("gauge: got %v, want 0", got)
	}
}

// TestGatesAtZero checks that each gate has its counter before it refuses anything.
func TestGatesAtZero(t *testing.T) {
	have := counts.Of(t, Register)
	for gate := range strings.FieldsSeq("memory open_files preread_memory process listener source_ip") {
		if _, ok := have["caddy_sluice_admission_rejected_total "+gate]; !ok {
			t.Errorf("gate %s: got no counter", gate)
		}
	}
}

// TestShedding checks that each gate tells when it begins to refuse, connections and requests apart, and that nothing stays
// open in the log when the config goes.
func TestShedding(t *testing.T) {
	ctx, stop := modules.ContextUntil(t, caddy.ModuleMap{appName: []byte(`{}`)})
	a, err := Of(ctx)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	a.logger = zap.New(core)
	for range 3 {
		within(t, func(sess *session.Session) { a.Refuse(sess, session.AdmissionListener) })
		a.refuseRequest(&RequestLimits{Server: "s"}, addr("192.0.2.1"), session.AdmissionSourceIP)
	}
	stop()
	var got []string
	for _, line := range logs.All() {
		fields := line.ContextMap()
		got = append(got, fmt.Sprint(line.Level, " ", line.Message, " ", fields["gate"], " ", fields["listener"], " ", fields["refused"]))
	}
	want := []string{
		"warn refusing connections listener " + local + " <nil>", "warn refusing requests source_ip s <nil>",
		"info no more connections refused listener <nil> 3", "info no more requests refused source_ip <nil> 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSources checks which clients share their permits.
func TestSources(t *testing.T) {
	a, _ := load(t, `{}`)
	for _, tc := range []struct {
		name, first, second string
		scopes              [2]string
		prefix              int
		shared              bool
	}{
		{"same_address", "192.0.2.1:1", "192.0.2.1:2", [2]string{"a", "a"}, 64, true},
		{"other_address", "192.0.2.1:1", "192.0.2.2:1", [2]string{"a", "a"}, 64, false},
		{"other_scope", "192.0.2.1:1", "192.0.2.1:2", [2]string{"a", "b"}, 64, false},
		{"ipv4_as_ipv6", "192.0.2.1:1", "[::ffff:192.0.2.1]:2", [2]string{"a", "a"}, 64, true},
		{"same_network", "[2001:db8::1]:1", "[2001:db8::2]:1", [2]string{"a", "a"}, 64, true},
		{"other_network", "[2001:db8::1]:1", "[2001:db8:0:1::1]:1", [2]string{"a", "a"}, 64, false},
		{"each_address", "[2001:db8::1]:1", "[2001:db8::2]:1", [2]string{"a", "a"}, 128, false},
		{"unix_sockets", "", "", [2]string{"a", "a"}, 64, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first := session.Enter(conns.New(t, tc.first, local))
			defer first.Leave(zap.NewNop())
			second := session.Enter(conns.New(t, tc.second, local))
			defer second.Leave(zap.NewNop())
			if !a.TakeSource(first, tc.scopes[0], 1, tc.prefix) {
				t.Fatal("first: got a refusal")
			}
			if got := a.TakeSource(second, tc.scopes[1], 1, tc.prefix); got == tc.shared {
				t.Errorf("second: got %v, want %v", got, !tc.shared)
			}
		})
	}
	if got := a.state.sources.Len(); got != 0 {
		t.Errorf("got %d clients left, want none", got)
	}
}

func BenchmarkAdmit(b *testing.B) {
	a, _ := load(b, `{"admission":{"max_connections":1000,"memory_limit":"100%","open_files_reserve":"0"}}`)
	a.logger = zap.NewNop()
	cx := conns.New(b, client, local)
	b.ReportAllocs()
	for b.Loop() {
		sess := session.Enter(cx)
		sess.Admitted = false
		a.Admit(sess)
		sess.Leave(a.logger)
	}
}
