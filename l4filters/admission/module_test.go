package admission

import (
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

const local = "10.0.0.1:443"

// load provisions a handler.
func load(t testing.TB, config string) *Handler {
	t.Helper()
	mod, err := modules.Load(t, "layer4.handlers.admission", config)
	if err != nil {
		t.Fatal(err)
	}
	return mod.(*Handler)
}

func TestProvision(t *testing.T) {
	for _, tc := range []struct{ config, err string }{
		{`{}`, ""},
		{`{"max_connections":1,"max_connections_per_ip":1,"ipv6_prefix":1}`, ""},
		{`{"max_connections":10000000,"max_connections_per_ip":10000000,"ipv6_prefix":128}`, ""},
		{`{"max_connections":-1}`, "max_connections: -1 is out of range, 1 to 10000000"},
		{`{"max_connections":10000001}`, "max_connections: 10000001 is out of range"},
		{`{"max_connections_per_ip":-1}`, "max_connections_per_ip: -1 is out of range, 1 to 10000000"},
		{`{"max_connections_per_ip":10000001}`, "max_connections_per_ip: 10000001 is out of range"},
		{`{"ipv6_prefix":-1}`, "ipv6_prefix: -1 is out of range, 1 to 128"},
		{`{"ipv6_prefix":129}`, "ipv6_prefix: 129 is out of range"},
	} {
		_, err := modules.Load(t, "layer4.handlers.admission", tc.config)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.err)
		}
	}
	if got := load(t, `{}`).IPv6Prefix; got != 64 {
		t.Errorf("got prefix %d, want 64", got)
	}
}

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Handler
		err  string
	}{
		{"admission", Handler{}, ""},
		{
			"admission {\nmax_connections 5\nmax_connections_per_ip 2\nipv6_prefix 56\n}",
			Handler{MaxConnections: 5, MaxConnectionsPerIP: 2, IPv6Prefix: 56},
			"",
		},
		{"admission 5", Handler{}, `admission takes no argument, got "5"`},
		{"admission {\nmax_connections 0\n}", Handler{}, `max_connections: "0" is not a positive number`},
		{"admission {\nmax_connections 1\nmax_connections 1\n}", Handler{}, "max_connections is given twice"},
		{"admission {\nlimit 1\n}", Handler{}, `unrecognized option "limit"`},
	} {
		var h Handler
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(tc.text))
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: got error %v, want one with %q", tc.text, err, tc.err)
		}
		if err == nil && h != tc.want {
			t.Errorf("%q: got %+v, want %+v", tc.text, h, tc.want)
		}
	}
}

// attempt is a connection that goes through a handler.
type attempt struct{ remote, local string }

// hold lets connections through the handler, one inside the other, and returns why each ended; those that were let in
// stay until all have had their turn.
func hold(t *testing.T, h *Handler, attempts []attempt) []session.CloseReason {
	t.Helper()
	if len(attempts) == 0 {
		return nil
	}
	cx := conns.New(t, attempts[0].remote, attempts[0].local)
	var rest []session.CloseReason
	inside := false
	err := h.Handle(cx, layer4.HandlerFunc(func(*layer4.Connection) error {
		inside = true
		rest = hold(t, h, attempts[1:])
		return nil
	}))
	reason := session.Of(cx).CloseReason()
	if err != nil || inside != (reason == session.Open) {
		t.Errorf("%v: got error %v, let in %v, %v", attempts[0], err, inside, reason)
	}
	if !inside {
		rest = hold(t, h, attempts[1:])
	}
	return append([]session.CloseReason{reason}, rest...)
}

func TestLimits(t *testing.T) {
	const open, listener, source = session.Open, session.AdmissionListener, session.AdmissionSourceIP
	for _, tc := range []struct {
		name, config string
		attempts     []attempt
		want         []session.CloseReason
	}{
		{"none", `{}`, []attempt{{"192.0.2.1:1", local}, {"192.0.2.1:2", local}}, []session.CloseReason{open, open}},
		{
			"T33_second_is_refused", `{"max_connections":1}`,
			[]attempt{{"192.0.2.1:1", local}, {"192.0.2.2:1", local}},
			[]session.CloseReason{open, listener},
		},
		{
			"other_listener", `{"max_connections":1}`,
			[]attempt{{"192.0.2.1:1", local}, {"192.0.2.1:1", "10.0.0.1:444"}},
			[]session.CloseReason{open, open},
		},
		{
			"E18_same_client", `{"max_connections_per_ip":1}`,
			[]attempt{{"192.0.2.1:1", local}, {"192.0.2.1:2", local}, {"192.0.2.2:1", local}},
			[]session.CloseReason{open, source, open},
		},
		{
			"E19_limit_two", `{"max_connections_per_ip":2}`,
			[]attempt{{"192.0.2.1:1", local}, {"192.0.2.1:2", local}, {"[::ffff:192.0.2.1]:3", local}},
			[]session.CloseReason{open, open, source},
		},
		{
			"E21_listeners_count_apart", `{"max_connections_per_ip":1}`,
			[]attempt{{"192.0.2.1:1", local}, {"192.0.2.1:2", "10.0.0.1:444"}},
			[]session.CloseReason{open, open},
		},
		{
			"ipv6_networks", `{"max_connections_per_ip":1,"ipv6_prefix":48}`,
			[]attempt{{"[2001:db8:1::1]:1", local}, {"[2001:db8:1:9::1]:1", local}, {"[2001:db8:2::1]:1", local}},
			[]session.CloseReason{open, source, open},
		},
		{
			"no_ip_address", `{"max_connections_per_ip":1}`,
			[]attempt{{"", "/run/a.sock"}, {"", "/run/a.sock"}},
			[]session.CloseReason{open, open},
		},
		{
			"source_refusal_gives_the_listener_back", `{"max_connections":2,"max_connections_per_ip":1}`,
			[]attempt{{"192.0.2.1:1", local}, {"192.0.2.1:2", local}, {"192.0.2.2:1", local}, {"192.0.2.3:1", local}},
			[]session.CloseReason{open, source, open, listener},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := load(t, tc.config)
			for range 3 { // nothing may be left over from one time to the next
				before := counts.Of(t, sluiceapp.Register)
				got := hold(t, h, tc.attempts)
				want := counts.Counts{}
				for i, reason := range tc.want {
					if got[i] != reason {
						t.Errorf("%v: got %v, want %v", tc.attempts[i], got[i], reason)
					}
					if reason != session.Open {
						want["caddy_sluice_admission_rejected_total "+strings.TrimPrefix(reason.String(), "admission_")]++
					}
				}
				if got := counts.Of(t, sluiceapp.Register).Since(before); !maps.Equal(got, want) {
					t.Errorf("metrics: got %v, want %v", got, want)
				}
			}
		})
	}
}

// TestEndedSession checks that a session which was stopped goes no further and takes nothing.
func TestEndedSession(t *testing.T) {
	h := load(t, `{"max_connections":1}`)
	cx := conns.New(t, "192.0.2.1:1", local)
	session.Of(cx).End(session.Killed)
	if err := h.Handle(cx, layer4.HandlerFunc(func(*layer4.Connection) error {
		t.Error("got a call of next")
		return nil
	})); err != nil {
		t.Error(err)
	}
	if got := counts.Of(t, sluiceapp.Register)["caddy_sluice_admission_connections"]; got != 0 {
		t.Errorf("got %v connections, want 0", got)
	}
}

// TestZ116_LimitInACrowd has many connections come and go at once, and checks that never more than the limit are in, and
// that all places are free afterwards.
func TestZ116_LimitInACrowd(t *testing.T) {
	const limit = 3
	h := load(t, `{"max_connections":3,"max_connections_per_ip":2}`)
	var mu sync.Mutex
	in, most, done := 0, 0, 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		in += by
		most, done = max(most, in), done+max(by, 0)
	}
	handle := func(remote string) {
		_ = h.Handle(conns.New(t, remote, local), layer4.HandlerFunc(func(*layer4.Connection) error {
			count(1)
			defer count(-1)
			panic("a fault")
		}))
	}
	h.logger = zap.NewNop()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				handle("192.0.2.1:1")
				handle("192.0.2.2:1")
			}
		})
	}
	wg.Wait()
	if most > limit || done == 0 {
		t.Errorf("got %d at once of %d, want %d at most", most, done, limit)
	}
	want := []session.CloseReason{session.Open, session.Open, session.Open, session.AdmissionListener}
	got := hold(t, h, []attempt{{"192.0.2.1:1", local}, {"192.0.2.1:2", local}, {"192.0.2.2:1", local}, {"192.0.2.2:2", local}})
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("afterwards, connection %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func BenchmarkHandle(b *testing.B) {
	h := load(b, `{"max_connections":1000,"max_connections_per_ip":100}`)
	// That many connections in so little time would use up the files.
	app, err := modules.Load(b, "sluice", `{"admission":{"max_connections":1000,"open_files_reserve":"0"}}`)
	if err != nil {
		b.Fatal(err)
	}
	h.app = app.(*sluiceapp.App)
	cx := conns.New(b, "192.0.2.1:1", local)
	next := layer4.HandlerFunc(func(*layer4.Connection) error { return nil })
	b.ReportAllocs()
	for b.Loop() {
		session.Of(cx).Admitted = false
		_ = h.Handle(cx, next)
	}
	if got := session.Of(cx).CloseReason(); got != session.Open {
		b.Errorf("got %v, want an admission", got)
	}
}
