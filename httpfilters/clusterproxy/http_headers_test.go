package clusterproxy

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
	"github.com/caddy-sluice/sluice/modules/reserved"
)

// TestRequestHeaders sends headers, byte by byte, and checks what of them gets to the endpoint.
func TestRequestHeaders(t *testing.T) {
	hops := []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer", "Upgrade"}
	const kept = "X-Kept: 1"
	for _, tc := range []struct {
		name    string
		headers []string
		absent  []string
		has     map[string][]string
	}{
		{"H40_hop_by_hop", []string{
			"Connection: keep-alive", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Proxy-Authorization: Basic x",
			"Proxy-Connection: keep-alive", "TE: gzip;q=0.5", "Trailer: X-T", "Upgrade: h2c",
		}, append(hops, "Transfer-Encoding"), nil},
		{"H40_empty_ones", []string{"Connection:", "Keep-Alive:", "TE:", "Upgrade:", "Proxy-Authorization:"}, hops, nil},
		{"H40_te_trailers_stays", []string{"TE: trailers, gzip"}, nil, map[string][]string{"TE": {"trailers"}}},
		{
			"H41_spaces_and_case",
			[]string{"Connection: x-a\t ,\tX-B,, ,close", "X-A: 1", "x-b: 2", "X-AB: 3"},
			[]string{"Connection", "X-A", "X-B"},
			map[string][]string{"X-Ab": {"3"}},
		},
		{
			"H42_several_lines",
			[]string{"Connection: X-A", "connection: X-B , keep-alive", "CONNECTION: X-C", "X-A: 1", "X-B: 2", "X-C: 3"},
			[]string{"Connection", "X-A", "X-B", "X-C"},
			nil,
		},
		{"H45_proxy_authorization", []string{"Proxy-Authorization: Basic x", "Authorization: Basic y"}, []string{"Proxy-Authorization"}, map[string][]string{"Authorization": {"Basic y"}}},
		{"H47_via_new", nil, nil, map[string][]string{"Via": {"1.1 Caddy"}}},
		{"H47_via_behind_another", []string{"Via: 1.0 old, 2.0 older"}, nil, map[string][]string{"Via": {"1.0 old, 2.0 older", "1.1 Caddy"}}},
		{"H47_via_not_UTF8", []string{"Via: 1.0 \xff\xfe"}, nil, map[string][]string{"Via": {"1.0 \xff\xfe", "1.1 Caddy"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address, requests := recording(t, plainAnswer)
			s := newSite(t, web([]string{address}, nil), nil)
			got := s.exchange(t, lines(slices.Concat([]string{"GET / HTTP/1.1", "Host: a.example", kept}, tc.headers)...))
			if got.line != "HTTP/1.1 200 OK" {
				t.Fatalf("got %q", got.line)
			}
			m := only(t, requests)
			checkAbsent(t, m.header, tc.absent...)
			checkHas(t, m.header, tc.has)
			checkHas(t, m.header, map[string][]string{"X-Kept": {"1"}})
		})
	}
	t.Run("H47_via_of_HTTP_1_0", func(t *testing.T) {
		address, requests := recording(t, plainAnswer)
		s := newSite(t, web([]string{address}, nil), nil)
		s.exchange(t, lines("GET / HTTP/1.0", "Host: a.example"))
		checkHas(t, only(t, requests).header, map[string][]string{"Via": {"1.0 Caddy"}})
	})
}

// TestH43_NominatedHeaders nominates in Connection what the proxies on the way say: a client can't have that removed.
func TestH43_NominatedHeaders(t *testing.T) {
	const all = "Connection: X-Forwarded-For, forwarded, X-FORWARDED-HOST, x-forwarded-proto , X-Forwarded-Port, Via, Host, X-A, close"
	sent := []string{
		"GET / HTTP/1.1", "Host: a.example", all, "Forwarded: for=192.0.2.1", "Via: 1.1 old", "X-Forwarded-Port: 1",
		"X-Forwarded-For: 192.0.2.1", "X-Forwarded-Host: b.example", "X-Forwarded-Proto: https", "X-A: 1",
	}
	ours := map[string][]string{
		"Forwarded": {"for=192.0.2.1"}, "Via": {"1.1 old", "1.1 Caddy"}, "Host": {"a.example"}, "X-Forwarded-Port": {"1"},
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"a.example"}, "X-Forwarded-Proto": {"http"},
	}
	trusted := maps.Clone(ours)
	trusted["X-Forwarded-For"], trusted["X-Forwarded-Host"] = []string{"192.0.2.1, 127.0.0.1"}, []string{"b.example"}
	trusted["X-Forwarded-Proto"] = []string{"https"}
	for _, tc := range []struct {
		name    string
		options object
		want    map[string][]string
	}{
		{"of_a_client", nil, ours},
		{"of_a_trusted_proxy", object{"trusted_proxies": []string{"127.0.0.0/8"}}, trusted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address, requests := recording(t, plainAnswer)
			s := newSite(t, web([]string{address}, nil), tc.options)
			s.exchange(t, lines(sent...))
			m := only(t, requests)
			checkHas(t, m.header, tc.want)
			checkAbsent(t, m.header, "X-A", "Connection")
		})
	}
	t.Run("with_an_upgrade", func(t *testing.T) {
		address, requests := recording(t, plainAnswer)
		s := newSite(t, web([]string{address}, nil), nil)
		s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example", "Connection: Via, Upgrade", "Upgrade: websocket", "Via: 1.1 old"))
		checkHas(t, only(t, requests).header, map[string][]string{
			"Via": {"1.1 old", "1.1 Caddy"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		})
	})
	t.Run("headers_of_the_operator", func(t *testing.T) {
		address, requests := recording(t, plainAnswer)
		up := object{"request": object{"set": object{"X-User": []string{"known"}}}}
		s := newSite(t, web([]string{address}, nil), object{"headers": up})
		s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example", "Connection: X-User", "X-User: forged"))
		checkHas(t, only(t, requests).header, map[string][]string{"X-User": {"known"}})
	})
}

// TestAnswerHeaders has endpoints that answer with headers, and checks what of them gets to a client of HTTP/1.1.
func TestAnswerHeaders(t *testing.T) {
	hops := []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade"}
	for _, tc := range []struct {
		name    string
		headers []string
		absent  []string
		has     map[string][]string
	}{
		{"H44_hop_by_hop", []string{
			"Connection: keep-alive", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Proxy-Connection: keep-alive",
			"TE: trailers", "Trailer: X-T", "Upgrade: h2c",
		}, hops, nil},
		{
			"H44_nominated",
			[]string{"Connection: x-a ,X-B", "Connection: X-C", "X-A: 1", "X-B: 2", "X-C: 3", "X-D: 4"},
			[]string{"Connection", "X-A", "X-B", "X-C"},
			map[string][]string{"X-D": {"4"}},
		},
		{"H44_ours_nominated", []string{"Connection: Via, Date", "Via: 1.1 origin"}, nil, map[string][]string{"Via": {"1.1 Caddy"}}},
		{"H45_proxy_authorization", []string{"Proxy-Authorization: Basic x"}, []string{"Proxy-Authorization"}, nil},
		{"H48_via_new", nil, nil, map[string][]string{"Via": {"1.1 Caddy"}}},
		{"H48_via_of_the_endpoint", []string{"Via: 1.0 origin"}, nil, map[string][]string{"Via": {"1.1 Caddy", "1.0 origin"}}},
		{"H62_two_cookies", []string{"Set-Cookie: a=1; Path=/", "Set-Cookie: b=2"}, nil, map[string][]string{"Set-Cookie": {"a=1; Path=/", "b=2"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := lines(slices.Concat([]string{"HTTP/1.1 200 OK", "X-Kept: 1", "Content-Length: 2"}, tc.headers)...) + "ok"
			address, _ := recording(t, answer)
			s := newSite(t, web([]string{address}, nil), nil)
			got := s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example"))
			if got.line != "HTTP/1.1 200 OK" || got.body != "ok" {
				t.Fatalf("got %q %q", got.line, got.body)
			}
			checkAbsent(t, got.header, tc.absent...)
			checkHas(t, got.header, tc.has)
			checkHas(t, got.header, map[string][]string{"X-Kept": {"1"}})
		})
	}
}

// endToEnd are headers that nobody on the way has anything to do with.
var endToEnd = map[string][]string{
	"Accept": {"a/b;q=0.5"}, "Accept-Encoding": {"br"}, "Age": {"1"}, "Authorization": {"Bearer x"}, "Cache-Control": {"no-store"},
	"Content-Language": {"de"}, "Content-Type": {"text/x"}, "Cookie": {"a=1; b=2"}, "Etag": {`"x"`}, "If-None-Match": {`"y"`},
	"Link": {"</a>; rel=preload", "</b>"}, "Origin": {"null"}, "Pragma": {"no-cache"}, "Range": {"bytes=0-1"}, "Referer": {"x"},
	"User-Agent": {"curl"}, "Vary": {"Origin"}, "Www-Authenticate": {"Basic", "Digest"}, "X-Empty": {""}, "X-Latin": {"\xe9"},
	"X-Many": {"1", "2", "1"}, "Max-Forwards": {"3"}, "Sec-Fetch-Mode": {"cors"}, "Traceparent": {"00-x-y-01"},
}

// TestH46_EndToEndHeaders checks that headers of both directions arrive as they were sent.
func TestH46_EndToEndHeaders(t *testing.T) {
	var sent []string
	for name, values := range endToEnd {
		for _, value := range values {
			sent = append(sent, name+": "+value)
		}
	}
	address, requests := recording(t, lines(slices.Concat([]string{"HTTP/1.1 200 OK", "Content-Length: 0"}, sent)...))
	s := newSite(t, web([]string{address}, nil), nil)
	got := s.exchange(t, lines(slices.Concat([]string{"GET /a%2Fb?c HTTP/1.1", "Host: a.example"}, sent)...))
	m := only(t, requests)
	checkHas(t, m.header, endToEnd)
	checkHas(t, got.header, endToEnd)
	if m.line != "GET /a%2Fb?c HTTP/1.1" {
		t.Errorf("got %q", m.line)
	}
}

// TestH60_AnswersToHTTP2 checks what a client of HTTP/2 gets from an endpoint that speaks HTTP/1.1.
func TestH60_AnswersToHTTP2(t *testing.T) {
	address, requests := recording(t, lines("HTTP/1.1 200 OK", "Connection: keep-alive, X-A", "Keep-Alive: timeout=5", "TE: trailers",
		"Upgrade: h2c", "Proxy-Connection: keep-alive", "Transfer-Encoding: chunked", "X-A: 1", "X-Kept: 1")+"2\r\nok\r\n0\r\n\r\n")
	s := &site{handler: newSite(t, web([]string{address}, nil), nil).handler}
	s.Server = sites.ServeBoth(t, s)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(s.request(t, "GET", "/", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); res.ProtoMajor != 2 || string(body) != "ok" || err != nil {
		t.Errorf("got %s %q, %v", res.Proto, body, err)
	}
	checkAbsent(t, res.Header, "Connection", "Keep-Alive", "TE", "Upgrade", "Proxy-Connection", "Transfer-Encoding", "X-A")
	checkHas(t, res.Header, map[string][]string{"X-Kept": {"1"}, "Via": {"1.1 Caddy"}})
	checkHas(t, only(t, requests).header, map[string][]string{"Via": {"2.0 Caddy"}})
}

// TestH48_ViaOfHTTP2 checks that the version in the answer's Via is that of the endpoint.
func TestH48_ViaOfHTTP2(t *testing.T) {
	b := secure(t, true, describe)
	s := newSite(t, web([]string{b.address}, object{"tls": object{"insecure_skip_verify": true}}), nil)
	got := s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example"))
	checkHas(t, got.header, map[string][]string{"Via": {"2.0 Caddy"}})
}

// TestH50_ReservedHeaders checks that what is reserved in a request gets to no endpoint, and is there for all before.
func TestH50_ReservedHeaders(t *testing.T) {
	names, err := reserved.Parse([]string{"X-Sluice-*"})
	if err != nil {
		t.Fatal(err)
	}
	headers := object{"request": object{"set": object{"X-Model": []string{"{http.request.header.X-Sluice-Model}"}, "X-Sluice-Told": []string{"yes"}}}}
	for _, tc := range []struct {
		name  string
		names *reserved.Names
		want  map[string][]string
	}{
		{"reserved", &names, map[string][]string{"X-Sluice-Model": nil, "X-Model": {"large"}, "X-Sluice-Told": {"yes"}, "X-Kept": {"1"}}},
		{"none", nil, map[string][]string{"X-Sluice-Model": {"large"}, "X-Model": {"large"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address, requests := recording(t, plainAnswer)
			s := newSite(t, web([]string{address}, nil), object{"headers": headers})
			var after http.Header
			s.before = func(r *http.Request) {
				if tc.names != nil {
					caddyhttp.SetVar(r.Context(), reserved.Var, tc.names)
				}
				r.Header.Set("X-Sluice-Model", "large")
				after = r.Header
			}
			s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example", "X-Kept: 1"))
			checkHas(t, only(t, requests).header, tc.want)
			checkHas(t, after, map[string][]string{"X-Sluice-Model": {"large"}})
		})
	}
	t.Run("on_each_attempt", func(t *testing.T) {
		var seen []string
		erring := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, fmt.Sprint(r.Header["X-Sluice-Model"]))
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		s := newSite(t, web([]string{erring.address}, retryAll(object{"status": []string{"503"}, "max": 2})), nil)
		s.before = func(r *http.Request) {
			caddyhttp.SetVar(r.Context(), reserved.Var, &names)
			r.Header.Set("X-Sluice-Model", "large")
		}
		s.get(t).want(t, http.StatusServiceUnavailable)
		if want := []string{"[]", "[]", "[]"}; !slices.Equal(seen, want) {
			t.Errorf("got %v, want %v", seen, want)
		}
	})
}

// TestUnchangedHeaders checks that an ordinary request isn't copied.
func TestUnchangedHeaders(t *testing.T) {
	names, err := reserved.Parse([]string{"X-Sluice-*"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header = http.Header{"Accept": {"*/*"}, "Connection": {"keep-alive, X-A"}, "X-A": {"1"}}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), reserved.Var, &names)
	h := new(Handler)
	if got := testing.AllocsPerRun(100, func() {
		if h.headerOf(r) != nil {
			t.Fatal("got a copy")
		}
	}); got > 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}
