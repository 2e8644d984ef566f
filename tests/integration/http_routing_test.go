package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// origin is an HTTP backend that says who it is and what it was asked for.
type origin struct {
	addr string
	// mu guards requests.
	mu       sync.Mutex
	requests []*http.Request
}

// newOrigin starts a backend.
func (l *lab) newOrigin(name string) *origin {
	l.Helper()
	o := new(origin)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		o.requests = append(o.requests, r)
		o.mu.Unlock()
		w.Header().Set("X-Sluice-Secret", "kept")
		fmt.Fprintf(w, "%s %s %s", name, r.RequestURI, body)
	}))
	l.Cleanup(server.Close)
	o.addr = server.Listener.Addr().String()
	return o
}

// taken returns the requests that have come since the last call.
func (o *origin) taken() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.requests
	o.requests = nil
	return got
}

// routed is a Caddy with sites in front of the clusters one, two and three.
type routed struct {
	*proxy
	addr    string
	origins []*origin
}

// startSites runs sites. PORT stands for the port that they share.
func (l *lab) startSites(sites string) *routed {
	l.Helper()
	p := &routed{addr: l.freeAddr()}
	options := "sluice {\n"
	for _, name := range []string{"one", "two", "three"} {
		o := l.newOrigin(name)
		p.origins = append(p.origins, o)
		options += fmt.Sprintf("cluster %s {\nendpoints %s\nbalance first\n}\n", name, o.addr)
	}
	p.proxy = l.run("default_bind 127.0.0.1\n"+options+"}\n", strings.ReplaceAll(sites, "PORT", port(p.addr)))
	return p
}

// get asks for a target as it stands, with headers, and returns the answer and its body, without the space at its end.
func (p *routed) get(host, target string, headers ...string) (res *http.Response, body string) {
	p.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	head := slices.Concat([]string{"GET " + target + " HTTP/1.1", "Host: " + host, "Connection: close"}, headers)
	fmt.Fprint(c, strings.Join(head, "\r\n")+"\r\n\r\n")
	res, err = http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.Fatal(err)
	}
	return res, strings.TrimSuffix(string(text), " ")
}

// visit is a request and what comes of it: a status of 0 stands for 200.
type visit struct {
	name, host, target string
	headers            []string
	status             int
	body               string
}

// checkVisits makes the requests.
func (p *routed) checkVisits(t *testing.T, table []visit) {
	t.Helper()
	for _, tc := range table {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.status
			if want == 0 {
				want = http.StatusOK
			}
			if res, body := p.get(tc.host, tc.target, tc.headers...); res.StatusCode != want || body != tc.body {
				t.Errorf("got %d %q, want %d %q", res.StatusCode, body, want, tc.body)
			}
			if tc.body != "" {
				return
			}
			for _, o := range p.origins {
				if got := o.taken(); len(got) > 0 && got[len(got)-1].RequestURI == tc.target {
					t.Errorf("got %s at a backend", tc.target)
				}
			}
		})
	}
}

// TestHTTPRoutes checks which cluster a request gets to by host, path and headers, as Caddy's own matchers say.
func TestHTTPRoutes(t *testing.T) {
	l := newLab(t)
	p := l.startSites(`
		http://paths.test:PORT {
			cluster_proxy /api/* two
			cluster_proxy three
			cluster_proxy /api/v1/* one
		}
		http://handles.test:PORT {
			handle {
				error 404
			}
			handle /api/* {
				cluster_proxy two
			}
			handle /api/v1/* {
				cluster_proxy one
			}
		}
		http://headers.test:PORT {
			@both {
				header X-Size large
				header X-Tenant t1
			}
			@large header X-Size large
			handle @both {
				cluster_proxy one
			}
			handle @large {
				cluster_proxy two
			}
			handle {
				cluster_proxy three
			}
		}
		http://few.test:PORT {
			cluster_proxy /api/* one
		}
		http://*.wild.test:PORT {
			cluster_proxy two
		}
		http://exact.wild.test:PORT {
			cluster_proxy one
		}
	`)
	p.checkVisits(t, []visit{
		{"H100_longest_prefix", "paths.test", "/api/v1/x", nil, 0, "one /api/v1/x"},
		{"H100_shorter_prefix", "paths.test", "/api/x", nil, 0, "two /api/x"},
		{"H100_no_prefix", "paths.test", "/apis", nil, 0, "three /apis"},
		{"H100_prefix_in_a_handle", "handles.test", "/api/v1/", nil, 0, "one /api/v1/"},
		{"H100_shorter_prefix_in_a_handle", "handles.test", "/api/v2", nil, 0, "two /api/v2"},
		{"H100_two_headers", "headers.test", "/", []string{"X-Size: large", "X-Tenant: t1"}, 0, "one /"},
		{"H100_any_value_of_a_header", "headers.test", "/", []string{"X-Size: small", "X-Size: large"}, 0, "two /"},
		{"H100_one_header", "headers.test", "/", []string{"x-size: large", "X-Tenant: t2"}, 0, "two /"},
		{"H100_no_header", "headers.test", "/", []string{"X-Tenant: t1"}, 0, "three /"},
		{"H100_host_in_capitals", "PATHS.Test", "/", nil, 0, "three /"},
		{"H101_no_route_with_a_catch_all", "handles.test", "/other", nil, 404, ""},
		{"H101_no_route", "few.test", "/other", nil, 200, ""},
		{"H101_no_site", "other.test", "/other", nil, 200, ""},
		{"H102_one_label", "a.wild.test", "/", nil, 0, "two /"},
		{"H102_with_a_port", "a.wild.test:8080", "/", nil, 0, "two /"},
		{"H102_exact_name_first", "exact.wild.test", "/", nil, 0, "one /"},
		{"H102_in_capitals", "A.WILD.test", "/", nil, 0, "two /"},
		{"H102_not_the_bare_name", "wild.test", "/bare", nil, 200, ""},
		{"H102_not_two_labels", "a.b.wild.test", "/labels", nil, 200, ""},
	})
}

// TestHTTPRewrites checks what rewrites do to the route, and that one which leaves the site isn't followed.
func TestHTTPRewrites(t *testing.T) {
	l := newLab(t)
	p := l.startSites(`
		http://rewrite.test:PORT {
			rewrite /old/* /api/v1{uri}
			cluster_proxy /api/* one
			cluster_proxy /old/* two
		}
		http://prefix.test:PORT {
			handle_path /strip/* {
				cluster_proxy two
			}
		}
		http://two.test:PORT {
			rewrite /a* /first
			rewrite /a/b* /second
			cluster_proxy three
		}
		http://inorder.test:PORT {
			route {
				rewrite /a /b
				rewrite /b /c
				cluster_proxy three
			}
		}
		http://free.test:PORT {
			rewrite {query.to}
			cluster_proxy one
		}
		http://option.test:PORT {
			cluster_proxy one {
				rewrite {query.to}
			}
		}
	`)
	p.checkVisits(t, []visit{
		{"H103_rewritten_path_routes", "rewrite.test", "/old/x?q=1", nil, 0, "one /api/v1/old/x?q=1"},
		{"H103_stripped_prefix", "prefix.test", "/strip/x", nil, 0, "two /x"},
		{"H104_the_closest_of_two", "two.test", "/a/b/c", nil, 0, "three /second"},
		{"H104_the_other", "two.test", "/a/c", nil, 0, "three /first"},
		{"H104_the_first_in_a_route", "inorder.test", "/a", nil, 0, "three /b"},
		{"H105_plain", "free.test", "/x?to=/y", nil, 0, "one /y?to=/y"},
	})
	for _, o := range p.origins {
		o.taken()
	}
	for _, host := range []string{"free.test", "option.test"} {
		for _, to := range []string{
			"/a/../b", "/..", "/a/%252e%252e/b", "/a/%2e%2e/b", "//evil.test/x", "//", "http://evil.test/x", "https:evil.test", "evil.test/x", "*",
		} {
			t.Run("H105_"+host+"_"+to, func(t *testing.T) {
				if res, body := p.get(host, "/x?to="+to); res.StatusCode != http.StatusInternalServerError || body != "" {
					t.Errorf("got %d %q, want 500", res.StatusCode, body)
				}
			})
		}
	}
	if got := p.origins[0].taken(); len(got) > 0 {
		t.Errorf("got %s at the backend, want nothing", got[0].RequestURI)
	}
}

// TestReservedHeadersRoute has a header that only the site may set choose the cluster. Clients can't send it, and no
// backend gets it.
func TestReservedHeadersRoute(t *testing.T) {
	l := newLab(t)
	p := l.startSites(`
		http://reserved.test:PORT {
			validate_request
			request_header X-Sluice-Model {query.model}
			@large header X-Sluice-Model large
			handle @large {
				cluster_proxy one {
					header_up X-Model {header.X-Sluice-Model}
				}
			}
			handle {
				cluster_proxy two
			}
		}
		http://without.test:PORT {
			request_header X-Sluice-Model {query.model}
			cluster_proxy three
		}
	`)
	p.checkVisits(t, []visit{
		{"H50_routes", "reserved.test", "/?model=large", nil, 0, "one /?model=large"},
		{"H50_routes_elsewhere", "reserved.test", "/?model=small", nil, 0, "two /?model=small"},
		{"H50_not_from_a_client", "reserved.test", "/?model=x", []string{"X-Sluice-Model: large"}, 400, ""},
		{"not_reserved", "without.test", "/?model=large", nil, 0, "three /?model=large"},
	})
	for host, want := range map[string]string{"reserved.test": "", "without.test": "kept"} {
		if res, _ := p.get(host, "/?model=large"); res.Header.Get("X-Sluice-Secret") != want {
			t.Errorf("H49 %s: got %q in the answer, want %q", host, res.Header.Get("X-Sluice-Secret"), want)
		}
	}
	for i, want := range []string{"", "", "large"} {
		for _, r := range p.origins[i].taken() {
			if got := r.Header.Get("X-Sluice-Model"); got != want {
				t.Errorf("backend %d got %q, want %q", i, got, want)
			}
			if got := r.Header.Get("X-Model"); i == 0 && got != "large" {
				t.Errorf("got X-Model %q, want large", got)
			}
		}
	}
}
