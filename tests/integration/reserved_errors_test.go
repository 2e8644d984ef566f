package integration

import (
	"net/http"
	"strings"
	"testing"
)

// errorRoutes are sites whose error routes pass requests on to the cluster two: with our proxy and Caddy's, without
// validate_request and with it.
func errorRoutes() string {
	site := func(host, handlers, errors string) string {
		return "http://" + host + ".test:PORT {\n" + handlers + "\nhandle_errors {\n" + errors + "\n}\n}\n"
	}
	const (
		// failing is a site in which a handler of ours sets a reserved header before there is an error.
		failing = `
			validate_request
			@failing header X-Fail *
			request_header X-Sluice-Model large
			error @failing "it failed" 502
			cluster_proxy one
		`
		// unjudged is one with an error in front of validate_request.
		unjudged = `
			route {
				@early header X-Early *
				error @early 503
				validate_request
				cluster_proxy one
			}
		`
		ours, stock = "cluster_proxy two", "reverse_proxy {\ndynamic cluster two\n}"
		guard       = "validate_request\n"
	)
	return site("ours", failing, ours) + site("stock", failing, stock) +
		site("guarded-ours", failing, guard+ours) + site("guarded-stock", failing, guard+stock) +
		site("early-ours", unjudged, guard+ours) + site("early-stock", unjudged, guard+stock)
}

// TestReservedHeadersInErrorRoutes has error routes proxy requests: no reserved header of a client gets to a backend, and with
// validate_request in the error route none that a handler has set, and none of an answer to the client (H49, H50).
func TestReservedHeadersInErrorRoutes(t *testing.T) {
	l := newLab(t)
	p := l.startSites(errorRoutes())
	const admin, fail, early = "X-Sluice-Admin: 1", "X-Fail: 1", "X-Early: 1"
	both := func(hosts ...string) (all []string) {
		for _, host := range hosts {
			all = append(all, host+"ours.test", host+"stock.test")
		}
		return all
	}
	for _, tc := range []struct {
		name    string
		hosts   []string
		target  string
		headers []string
	}{
		{"refused", both("", "guarded-"), "/a", []string{admin}},
		{"refused_for_its_path", both("", "guarded-"), "/a/../b", []string{admin}},
		{"failed", both("guarded-"), "/a", []string{fail}},
		{"failed_ours", []string{"ours.test"}, "/a", []string{fail}},
		{"before_it_was_judged", both("early-"), "/a", []string{early, admin}},
	} {
		for _, host := range tc.hosts {
			t.Run(tc.name+"_"+host, func(t *testing.T) {
				res, body := p.get(host, tc.target, tc.headers...)
				got := p.origins[1].taken()
				if len(got) != 1 || body != "two "+tc.target {
					t.Fatalf("got %d %q, %d requests at the backend, want one", res.StatusCode, body, len(got))
				}
				for name := range got[0].Header {
					if strings.HasPrefix(name, "X-Sluice-") {
						t.Errorf("got %s at the backend", name)
					}
				}
				if kept := res.Header.Get("X-Sluice-Secret"); kept != "" && !plain(host) {
					t.Errorf("got X-Sluice-Secret in the answer")
				}
			})
		}
	}
	for _, host := range both("early-") {
		res, body := p.get(host, "/a/../b", early, admin)
		if got := p.origins[1].taken(); res.StatusCode != http.StatusServiceUnavailable || body != "" || len(got) > 0 {
			t.Errorf("%s: got %d %q, %d requests at the backend, want 503 and none", host, res.StatusCode, body, len(got))
		}
	}
	if got := p.origins[0].taken(); len(got) > 0 {
		t.Errorf("got %s at the wrong backend", got[0].RequestURI)
	}
}

// plain says whether the error route of a host is without validate_request, so that answers aren't cleaned.
func plain(host string) bool { return host == "ours.test" || host == "stock.test" }
