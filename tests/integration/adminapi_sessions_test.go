package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// listed is a session as the admin API shows it.
type listed struct {
	ID                                                          uint64
	Client, Peer, Listener, ServerName, ALPN, Pattern, Upstream string
	Reason                                                      string
	BytesIn, BytesOut                                           int64
	Tags                                                        map[string]string
}

// UnmarshalJSON reads the names that the API writes.
func (s *listed) UnmarshalJSON(text []byte) error {
	var raw struct {
		ID         uint64            `json:"id"`
		Client     string            `json:"client"`
		Peer       string            `json:"peer"`
		Listener   string            `json:"listener"`
		ServerName string            `json:"server_name"`
		ALPN       string            `json:"alpn"`
		Pattern    string            `json:"pattern"`
		Upstream   string            `json:"upstream"`
		Reason     string            `json:"reason"`
		BytesIn    int64             `json:"bytes_in"`
		BytesOut   int64             `json:"bytes_out"`
		Tags       map[string]string `json:"tags"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*s = listed{
		raw.ID, raw.Client, raw.Peer, raw.Listener, raw.ServerName, raw.ALPN, raw.Pattern, raw.Upstream,
		raw.Reason, raw.BytesIn, raw.BytesOut, raw.Tags,
	}
	return nil
}

// sessionList is an answer of the admin API.
type sessionList struct {
	Sessions []listed `json:"sessions"`
	Total    int      `json:"total"`
	Next     string   `json:"next"`
}

// api sends a request to the admin endpoint and reads the answer into value, if that is not nil. It returns the status
// and the body.
func (p *proxy) api(method, path string, value any) (*http.Response, string) {
	p.Helper()
	req, err := http.NewRequest(method, "http://localhost"+path, http.NoBody)
	if err != nil {
		p.Fatal(err)
	}
	res, err := p.admin.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.Fatal(err)
	}
	if value != nil {
		if err := json.Unmarshal(body, value); err != nil || res.StatusCode != http.StatusOK {
			p.Fatalf("%s %s: got status %d and %v in %s", method, path, res.StatusCode, err, body)
		}
	}
	return res, string(body)
}

// sessions lists sessions.
func (p *proxy) sessions(query string) sessionList {
	p.Helper()
	var list sessionList
	p.api(http.MethodGet, "/sluice/sessions"+query, &list)
	return list
}

// awaitSession waits until there is one session of a peer that is as wanted, and returns it.
func (p *proxy) awaitSession(of *peer, wanted func(listed) bool) listed {
	p.Helper()
	var found listed
	p.eventually("session of "+of.LocalAddr().String(), func() (string, bool) {
		for _, s := range p.sessions("").Sessions {
			if s.Peer == of.LocalAddr().String() && wanted(s) {
				found = s
				return "", true
			}
		}
		return fmt.Sprintf("%+v", p.sessions("")), false
	})
	return found
}

// awaitNone waits until no session is left.
func (p *proxy) awaitNone() {
	p.Helper()
	p.eventually("sessions have ended", func() (string, bool) {
		list := p.sessions("")
		return fmt.Sprintf("%+v", list), list.Total == 0
	})
}

// kill ends a session through the API.
func (p *proxy) kill(id uint64) listed {
	p.Helper()
	var s listed
	p.api(http.MethodDelete, fmt.Sprintf("/sluice/sessions/%d", id), &s)
	return s
}

func relayed(s listed) bool { return s.Upstream != "" }
func any1(listed) bool      { return true }

// startListed runs a router with tags and a sight handler in front, for whose sake on_disconnect can be seen.
func startListed(l *lab, upstream string) *proxy {
	l.Helper()
	return l.start("sight\nsni_router {\nroute *.list.test {\ntags team blue\nforward " + upstream + "\n}\n}")
}

// TestAdminSessions lists sessions that are being relayed, with their byte counts as they grow, and with each filter.
func TestAdminSessions(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startListed(l, b.addr)
	hello := hellos.New(hellos.Options{ServerName: "one.list.test", ALPN: []string{"h2"}})
	one := p.dial()
	one.send(hello)
	up := b.accept()
	up.expect(hello)
	other := p.dial()
	other.send(named("two.list.test"))
	b.accept()

	s := p.awaitSession(one, relayed)
	if s.Client != one.LocalAddr().String() || s.Listener != p.addr || s.ServerName != "one.list.test" || s.ALPN != "h2" ||
		s.Pattern != "*.list.test" || s.Upstream != b.addr || s.Reason != "" || s.Tags["team"] != "blue" {
		t.Errorf("got session %+v", s)
	}
	one.send(make([]byte, 1000))
	up.expect(make([]byte, 1000))
	up.send(make([]byte, 70_000))
	one.expect(make([]byte, 70_000))
	s = p.awaitSession(one, func(s listed) bool { return s.BytesOut == 70_000 })
	if want := int64(len(hello) + 1000); s.BytesIn != want {
		t.Errorf("got %d bytes in, want %d", s.BytesIn, want)
	}

	for query, want := range map[string]int{
		"":                            2,
		"?client=127.0.0.1":           2,
		"?client=127.0.0.0/8":         2,
		"?client=10.0.0.0/8":          0,
		"?listener=" + p.addr:         2,
		"?listener=127.0.0.1:1":       0,
		"?server_name=two.list.test":  1,
		"?server_name=list.test":      0,
		"?upstream=" + b.addr:         2,
		"?cluster=":                   2,
		"?cluster=web":                0,
		"?pattern=*.list.test":        2,
		"?reason=":                    2,
		"?reason=handed_over":         0,
		"?reason=&client=127.0.0.1":   2,
		"?limit=1&client=127.0.0.1":   2,
		"?limit=1000&pattern=%2A.x.y": 0,
	} {
		if got := p.sessions(query); got.Total != want {
			t.Errorf("%s: got %d sessions, want %d", query, got.Total, want)
		}
	}
	first := p.sessions("?limit=1")
	second := p.sessions("?limit=1&after=" + first.Next)
	if len(first.Sessions) != 1 || len(second.Sessions) != 1 || first.Sessions[0].ID >= second.Sessions[0].ID || second.Next != "" {
		t.Errorf("got pages %+v and %+v, want one session on each", first, second)
	}
	var alone listed
	p.api(http.MethodGet, fmt.Sprintf("/sluice/sessions/%d", s.ID), &alone)
	if alone.ID != s.ID || alone.ServerName != "one.list.test" {
		t.Errorf("got %+v, want session %d", alone, s.ID)
	}
}

// TestAdminKill ends a session that is being relayed: both sides see an end, the filters in front see why, and its
// permits are free.
func TestAdminKill(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startListed(l, b.addr)
	const series = `caddy_sluice_session_closed_total{reason="killed"}`
	before := p.metric(series)
	c := p.dial()
	c.send(named("one.list.test"))
	up := b.accept()
	up.expect(named("one.list.test"))
	s := p.awaitSession(c, relayed)
	if killed := p.kill(s.ID); killed.ID != s.ID || killed.Reason != "killed" {
		t.Errorf("got %+v, want session %d with reason killed", killed, s.ID)
	}
	for _, end := range []*peer{c, up} {
		_, _ = io.Copy(io.Discard, end.stream) // it ends within patience, with or without a reset
		if err := end.stream.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
	}
	after := p.sighting()
	p.expectValues(after.After, map[string]string{"sluice.close_reason": "killed"})
	p.awaitNone()
	if got := p.metric(series) - before; got != 1 {
		t.Errorf("got %v sessions killed in the metrics, want 1", got)
	}
	res, body := p.api(http.MethodDelete, fmt.Sprintf("/sluice/sessions/%d", s.ID), nil)
	if res.StatusCode != http.StatusNotFound || !strings.Contains(body, "there is no session") {
		t.Errorf("second time: got %d and %s, want 404", res.StatusCode, body)
	}
	p.quiet()
}

// TestAdminKillInPreread ends a session whose hello is incomplete: no fallback gets it, and nobody counts it as a client
// that has left.
func TestAdminKillInPreread(t *testing.T) {
	l := newLab(t)
	p := l.start("sight\npreread {\ntimeout 1m\n}\nsni_router {\nfallback {\nforward " + l.digester("fallback") + "\n}\n}")
	base := p.counts()
	c := p.dial()
	c.send(named("one.list.test")[:20])
	s := p.awaitSession(c, any1)
	p.kill(s.ID)
	c.expectClosed()
	c.Close()
	p.expectValues(p.sighting().After, map[string]string{"sluice.close_reason": "killed", "sluice.reason": ""})
	p.settle(base, 1, nil)
	p.awaitNone()
	p.quiet()
}

// TestAdminKillHandedOver ends a connection that Caddy's HTTP app has.
func TestAdminKillHandedOver(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, passthrough(l.digester("pass")), whoAmI)
	var local atomic.Pointer[string]
	client := p.client(false, &local)
	client.Transport.(*http.Transport).DisableKeepAlives = false
	defer client.CloseIdleConnections()
	if _, err := fetch(client, "/"); err != nil {
		t.Fatal(err)
	}
	var list sessionList
	p.eventually("one session is handed over", func() (string, bool) {
		list = p.sessions("?reason=handed_over")
		return fmt.Sprintf("%+v", list), list.Total == 1
	})
	s := list.Sessions[0]
	if s.Client != *local.Load() || s.ServerName != "www.site.test" {
		t.Errorf("got %+v, want the connection from %s", s, *local.Load())
	}
	if killed := p.kill(s.ID); killed.Reason != "handed_over" {
		t.Errorf("got %+v, want the reason to stay", killed)
	}
	p.awaitNone()
	first := *local.Load()
	if _, err := fetch(client, "/"); err != nil || *local.Load() == first {
		t.Errorf("got %v from the next request, on %s, want another connection", err, *local.Load())
	}
	client.CloseIdleConnections()
	p.awaitNone()
}

// TestAdminErrors checks what the API refuses, and how.
func TestAdminErrors(t *testing.T) {
	l := newLab(t)
	p := startListed(l, l.backend().addr)
	for _, tc := range []struct {
		method, path string
		status       int
		text, allow  string
	}{
		{"GET", "/sluice/sessions?limit=0", 400, "parameter limit", ""},
		{"GET", "/sluice/sessions?limt=1", 400, "parameter limt", ""},
		{"GET", "/sluice/sessions?client=nobody", 400, "parameter client", ""},
		{"GET", "/sluice/sessions?after=x", 400, "parameter after", ""},
		{"GET", "/sluice/sessions?reason=killed", 400, "parameter reason", ""},
		{"GET", "/sluice/sessions?limit=1&limit=2", 400, "parameter limit", ""},
		{"GET", "/sluice/sessions?client=%zz", 400, "invalid URL escape", ""},
		{"GET", "/sluice/sessions/", 400, "not the ID", ""},
		{"GET", "/sluice/sessions/x", 400, "not the ID", ""},
		{"GET", "/sluice/sessions/1/x", 400, "not the ID", ""},
		{"GET", "/sluice/sessions/1?x=1", 400, "no parameters", ""},
		{"GET", "/sluice/sessions/18446744073709551615", 404, "there is no session", ""},
		{"DELETE", "/sluice/sessions/18446744073709551615", 404, "there is no session", ""},
		{"DELETE", "/sluice/sessions", 405, "method DELETE", "GET"},
		{"POST", "/sluice/sessions", 405, "method POST", "GET"},
		{"PATCH", "/sluice/sessions/1", 405, "method PATCH", "GET, DELETE"},
		{"POST", "/sluice/healthy", 405, "method POST", "GET"},
	} {
		t.Run(tc.method+tc.path, func(t *testing.T) {
			res, body := p.api(tc.method, tc.path, nil)
			if res.StatusCode != tc.status || !strings.Contains(body, tc.text) || res.Header.Get("Allow") != tc.allow {
				t.Errorf("got %d, %s, allow %q, want %d, %q, %q", res.StatusCode, body, res.Header.Get("Allow"), tc.status, tc.text, tc.allow)
			}
		})
	}
	if _, body := p.api("GET", "/sluice/healthy", nil); strings.TrimSpace(body) != `{"status":"ok"}` {
		t.Errorf("healthy: got %s", body)
	}
	if _, body := p.api("GET", "/sluice/sessions", nil); strings.TrimSpace(body) != `{"sessions":[],"total":0}` {
		t.Errorf("empty list: got %s", body)
	}
}

// TestT87_ReloadWhileASessionIsOpen reloads, once with success and once not, while a session goes on: it stays on the
// list under its ID, can be ended, and is gone from all counts then.
func TestT87_ReloadWhileASessionIsOpen(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startListed(l, b.addr)
	c := p.dial()
	c.send(named("one.list.test"))
	up := b.accept()
	up.expect(named("one.list.test"))
	s := p.awaitSession(c, relayed)
	if err := p.route("preread {\nmax_bytes 4\n}\nforward 127.0.0.1:9"); err == nil {
		t.Fatal("got no error from a config that is wrong")
	}
	if got := p.awaitSession(c, relayed); got.ID != s.ID {
		t.Errorf("after a refused reload: got %+v, want session %d", got, s.ID)
	}
	if err := p.route("sni_router {\nroute new.list.test {\nforward " + l.digester("new") + "\n}\n}"); err != nil {
		t.Fatal(err)
	}
	echoes(c, up)
	if got := p.awaitSession(c, relayed); got.ID != s.ID || got.Tags["team"] != "blue" {
		t.Errorf("after a reload: got %+v, want session %d as it was", got, s.ID)
	}
	hello := named("new.list.test")
	p.expectAnswer(digest("new", hello), hello)
	p.kill(s.ID)
	if _, err := io.Copy(io.Discard, c.stream); err != nil {
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Errorf("got %v, want an end", err)
		}
	}
	p.expectValues(p.sighting().After, map[string]string{"sluice.close_reason": "killed"})
	p.awaitNone()
	if got := p.metric("caddy_sluice_session_active"); got != 0 {
		t.Errorf("got %v active sessions, want none", got)
	}
}
