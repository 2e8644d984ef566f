package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
)

func init() { caddy.RegisterModule(new(mark)) }

// mark is a filter that leaves its label on requests and answers, with how many requests this one has seen. Requests
// with X-Gate wait in it, and those with X-Panic have it panic.
type mark struct {
	Label string `json:"label,omitempty"`

	seen atomic.Int64
}

// gate is where requests wait: each says that it is there, and goes on when it has got something.
var gate = make(chan chan struct{})

func (*mark) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_mark", New: func() caddy.Module { return new(mark) }}
}

func (m *mark) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&m.Label) {
		return d.ArgErr()
	}
	return nil
}

func (m *mark) Request(x *pipeline.Exchange) error {
	r := x.Request()
	if r.Header.Get("X-Panic") == m.Label {
		panic("test: the filter panics")
	}
	r.Header.Add("X-Marks", fmt.Sprintf("%s%d", m.Label, m.seen.Add(1)))
	if r.Header.Get("X-Gate") != "" {
		open := make(chan struct{})
		gate <- open
		<-open
	}
	return x.Set("label", m.Label)
}

func (m *mark) Response(x *pipeline.Exchange) error {
	x.Response().Header.Add("X-Marked", m.Label)
	return nil
}

// marks are what the marking filters have left on a request, and on its answer.
type marks struct {
	status            int
	request, response string
	err               error
}

// askMarks makes a request to a site that answers with the marks of the request.
func (p *proxy) askMarks(addr string, headers ...string) (m marks) {
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		return marks{err: err}
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Client{Transport: again{&http.Transport{DisableKeepAlives: true}, dropped, nil}, Timeout: patience}).Do(req)
	if err != nil {
		return marks{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return marks{res.StatusCode, string(text), strings.Join(res.Header["X-Marked"], " "), err}
}

// expectMarks checks what a request has come to.
func (p *proxy) expectMarks(got, want marks) {
	p.Helper()
	if got != want {
		p.Errorf("got %+v, want %+v", got, want)
	}
}

// expectMarksSoon is expectMarks right after a reload: the server of the config before may still answer to a client.
func (p *proxy) expectMarksSoon(addr string, want marks) {
	p.Helper()
	p.eventually("the new config answers", func() (string, bool) {
		got := p.askMarks(addr)
		return fmt.Sprintf("%+v", got), got == want
	})
}

// marking returns a site with filters.
func marking(addr, filters string) string {
	return "http://" + addr + " {\nbind 127.0.0.1\nlog\nfilters {\n" + filters + "\n}\n" +
		"log_append mark {http.filters.test_mark.label}\nrespond \"{http.request.header.X-Marks}\"\n}\n"
}

// TestH157_ReloadDuringARequest reloads while a request is in a filter: it ends with the filters that it began with.
func TestH157_ReloadDuringARequest(t *testing.T) {
	l := newLab(t)
	addr := l.freeAddr()
	p := l.run("", marking(addr, "test_mark a\nas second test_mark b"))
	slow := make(chan marks)
	go func() { slow <- p.askMarks(addr, "X-Gate", "1") }()
	open := <-gate

	if err := p.load("", marking(addr, "test_mark new")); err != nil {
		t.Fatal(err)
	}
	p.expectMarksSoon(addr, marks{200, "new1", "new", nil})
	close(open)
	close(<-gate) // the second filter has X-Gate too
	p.expectMarks(<-slow, marks{200, "a1,b1", "b a", nil})
	p.expectMarks(p.askMarks(addr), marks{200, "new2", "new", nil})
	// What filters have found out is in the access log.
	for _, want := range []string{`"mark":"new"`, `"mark":"a"`} {
		p.eventually("a line with "+want, func() (string, bool) {
			return "none", len(records.find(func(r logRecord) bool { return strings.Contains(r.Line, want) })) > 0
		})
	}
}

// TestH158_RefusedReload reloads configs that are refused: the pipeline that is there goes on.
func TestH158_RefusedReload(t *testing.T) {
	l := newLab(t)
	addr := l.freeAddr()
	p := l.run("", marking(addr, "test_mark a"))
	p.expectMarks(p.askMarks(addr), marks{200, "a1", "a", nil})
	for i, tc := range []struct{ filters, want string }{
		{"test_mark new\nbranch b {\nrejoin test_mark\n}", "filters[0]: branches[0]: max_iterations: 0 is out of range"},
		{"test_mark new\nwhen `1 +` {\ntest_mark b\n}", "filters[1]: conditions[0]: when"},
	} {
		if err := p.load("", marking(addr, tc.filters)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.filters, err, tc.want)
		}
		if got := p.metric("caddy_config_last_reload_successful"); got != 0 {
			t.Errorf("%s: got a metric that says the reload was successful", tc.filters)
		}
		p.expectMarks(p.askMarks(addr), marks{200, fmt.Sprint("a", i+2), "a", nil})
	}
	if err := p.load("", marking(addr, "test_mark new")); err != nil {
		t.Fatal(err)
	}
	p.expectMarksSoon(addr, marks{200, "new1", "new", nil})
}

// TestFilterChains has two sites with the same chain: each has its own copies of its filters.
func TestFilterChains(t *testing.T) {
	l := newLab(t)
	one, two := l.freeAddr(), l.freeAddr()
	p := l.run("", marking(one, "test_mark CHAIN")+marking(two, "test_mark before\ntest_mark CHAIN"))
	config := p.adapt(p.globals("") + marking(one, "test_mark CHAIN") + marking(two, "test_mark before\ntest_mark CHAIN"))
	config = bytes.ReplaceAll(config, []byte(`{"filter":{"filter":"test_mark","label":"CHAIN"}}`), []byte(`{"chain":"common"}`))
	chains := `"apps":{"sluice":{"filter_chains":{"common":[` +
		`{"name":"x","filter":{"filter":"test_mark","label":"x"}},{"name":"y","filter":{"filter":"test_mark","label":"y"}}]}},`
	config = bytes.Replace(config, []byte(`"apps":{`), []byte(chains), 1)
	if n := bytes.Count(config, []byte(`"chain":"common"`)); n != 2 {
		t.Fatalf("got %d chains in %s", n, config)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	p.expectMarksSoon(one, marks{200, "x1,y1", "y x", nil})
	p.expectMarks(p.askMarks(one), marks{200, "x2,y2", "y x", nil})
	p.expectMarksSoon(two, marks{200, "before1,x1,y1", "y x before", nil})
}

// TestFiltersInASite runs branches, groups and a filter that panics behind Caddy's own server.
func TestFiltersInASite(t *testing.T) {
	l := newLab(t)
	addr := l.freeAddr()
	p := l.run("", marking(addr, `
		test_mark a
		branch deny {
			on label a
			match header X-Deny *
			handle {
				respond "denied" 403
			}
			rejoin terminal
		}
		branch inner {
			match {
				header X-Inner *
				method GET
			}
			handle {
				filters {
					as in test_mark in
					branch out {
						match header X-Inner nowhere
						handle {
							vars nothing 1
						}
						rejoin terminal
					}
				}
			}
			rejoin c
		}
		when header X-When 1 {
			unless header X-Unless 1 {
				as b test_mark b
			}
		}
		on_response status 403 {
			as c test_mark c
		}
	`))
	for _, tc := range []struct {
		headers []string
		want    marks
	}{
		{nil, marks{200, "a1,c1", "a", nil}},
		{[]string{"X-When", "1"}, marks{200, "a2,b1,c2", "b a", nil}},
		{[]string{"X-When", "1", "X-Unless", "1"}, marks{200, "a3,c3", "a", nil}},
		{[]string{"X-Deny", "1"}, marks{403, "denied", "a", nil}},
		{[]string{"X-When", "1", "X-Inner", "1"}, marks{200, "a5,in1,c4", "in a", nil}},
		{[]string{"X-When", "1", "X-Inner", "nowhere"}, marks{500, "", "in a", nil}},
		{[]string{"X-Panic", "a"}, marks{500, "", "a", nil}},
		{[]string{"X-Panic", "c"}, marks{500, "", "a", nil}},
		{nil, marks{200, "a8,c5", "a", nil}},
	} {
		if got := p.askMarks(addr, tc.headers...); got != tc.want {
			t.Errorf("%q: got %+v, want %+v", tc.headers, got, tc.want)
		}
	}
	if n := records.count("filter panicked"); n != 2 {
		t.Errorf("got %d lines about panics, want 2", n)
	}
}
