package jsonfield

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// sized returns an object of n bytes with the model, at its beginning or its end.
func sized(n int, last bool) string {
	const member, frame = `"model":"a"`, `{,"x":""}`
	x := `"x":"` + strings.Repeat("x", n-len(member)-len(frame)) + `"`
	if last {
		return "{" + x + "," + member + "}"
	}
	return "{" + member + "," + x + "}"
}

// TestLimit checks bodies of as many bytes as the limit, one more, and many more.
func TestLimit(t *testing.T) {
	const limit = 100
	limited := want{http.StatusOK, "limit", ""}
	for _, tc := range []struct {
		strict, onLimit string
		// last is what becomes of bodies above the limit that have the model at the end, first of those with it in front.
		last, first want
	}{
		{on, reject, large, large},
		{on, proceed, limited, limited},
		{off, reject, large, found("a")},
		{off, proceed, limited, found("a")},
	} {
		t.Run("strict_"+tc.strict+"_"+tc.onLimit, func(t *testing.T) {
			s := newSite(t, pipelineOf(t, fmt.Sprintf(`%s,"strict":"%s","on_limit":"%s","limit":%d`, model, tc.strict, tc.onLimit, limit), ""))
			for _, http2 := range []bool{false, true} {
				c := client(t, http2)
				for _, framing := range [][]string{nil, {"chunked"}} {
					for _, n := range []int{limit - 1, limit} {
						s.check(t, c, sized(n, true), found("a"), framing...)
						s.check(t, c, sized(n, false), found("a"), framing...)
					}
					for _, n := range []int{limit + 1, limit + 2, 3 * limit, 20000} {
						// The brace at the end needn't be seen without strict.
						if tc.strict == on || n > limit+1 {
							s.check(t, c, sized(n, true), tc.last, framing...)
						}
						s.check(t, c, sized(n, false), tc.first, framing...)
					}
					if tc.strict == off {
						s.check(t, c, sized(limit+1, true), found("a"), framing...)
					}
				}
			}
		})
	}
}

// TestLimitAmongOthers checks that the limit is that of the filter, also if another one has more held back.
func TestLimitAmongOthers(t *testing.T) {
	for strict, w := range map[string]want{on: large, off: large} {
		s := newSite(t, handlerOf(t, fmt.Sprintf(`{"filters":[{"filter":{"filter":"json_field",%s,"limit":100,"strict":"%s"}},
			{"name":"other","filter":{"filter":"json_field","fields":[{"field":"y","header":"X-Y"}],"limit":1000}}]}`, model, strict)))
		s.check(t, client(t, false), sized(100, true), found("a"))
		s.check(t, client(t, false), sized(102, true), w)
	}
}

// TestLimitOfPipeline checks the limit of the filter against that of the pipeline: where it is said, and with the default.
func TestLimitOfPipeline(t *testing.T) {
	for _, tc := range []struct{ settings, filter, err string }{
		{`"request_body_limit":100,`, `"limit":100`, ""},
		{`"request_body_limit":100,`, `"limit":100,"strict":"off"`, ""},
		{`"request_body_limit":100,`, `"limit":99,"on_limit":"continue"`, ""},
		{`"request_body_limit":100,`, `"limit":99,"on_limit":"continue","strict":"off"`, ""},
		{`"request_body_limit":100,`, `"limit":101`, "limit: 101 bytes are more than request_body_limit, 100 bytes"},
		{`"request_body_limit":100,`, `"limit":101,"strict":"off"`, "limit: 101 bytes are more than request_body_limit, 100 bytes"},
		{`"request_body_limit":100,`, `"limit":5000,"on_limit":"continue"`, "limit: 5000 bytes are more than request_body_limit, 100 bytes"},
		{`"request_body_limit":100,`, `"limit":100,"on_limit":"continue"`, "limit: 100 bytes must be less than request_body_limit, 100 bytes"},
		{"", `"limit":10485760`, ""},
		{"", `"limit":10485761`, "limit: 10485761 bytes are more than request_body_limit, 10485760 bytes"},
		{"", `"limit":10485760,"on_limit":"continue"`, "limit: 10485760 bytes must be less than request_body_limit, 10485760 bytes"},
	} {
		config := fmt.Sprintf(`{%s"filters":[{"filter":{"filter":"json_field",%s,%s}}]}`, tc.settings, model, tc.filter)
		_, err := modules.Load(t, "http.handlers.filters", config)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), "filters[0]: filter: ") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got %v, want an error with %q", config, err, tc.err)
		}
	}
}

// TestLimitAtThatOfPipeline checks bodies at a limit that is the pipeline's too.
func TestLimitAtThatOfPipeline(t *testing.T) {
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, model+`,"limit":100,"strict":"`+strict+`"`, `"request_body_limit":100,`))
		for _, framing := range [][]string{nil, {"chunked"}} {
			s.check(t, client(t, false), sized(100, true), found("a"), framing...)
			s.check(t, client(t, false), sized(102, true), large, framing...)
		}
	})
}

// TestTwoFilters has a filter that finds its member early beside others that don't: none is overruled.
func TestTwoFilters(t *testing.T) {
	const early = `{"name":"early","filter":{"filter":"json_field","strict":"off","fields":[{"field":"a","header":"X-A"}]}}`
	late := func(settings string) string {
		return `{"filter":{"filter":"json_field","fields":[{"field":"model","header":"X-Model"}],` + settings + `}}`
	}
	pad := `"pad":"` + strings.Repeat("x", 200_000) + `",`
	refused := want{http.StatusBadRequest, "", ""}
	for _, tc := range []struct {
		settings, body string
		want           want
	}{
		{`"strict":"off","on_missing":"reject"`, `{"a":"1",` + pad + `"model":"b"}`, found("b")},
		{`"strict":"off","on_missing":"reject"`, `{"a":"1",` + pad + `"other":"b"}`, refused},
		{`"strict":"off","limit":1000`, `{"a":"1",` + pad + `"model":"b"}`, large},
		{`"strict":"off","limit":1000,"on_limit":"continue"`, `{"a":"1",` + pad + `"model":"b"}`, want{http.StatusOK, "limit", ""}},
		{`"limit":1000000,"on_limit":"continue"`, `{"a":"1",` + pad + `"model":"b"}`, found("b")},
		{`"limit":1000000,"on_limit":"continue"`, `{"a":"1","model":"1",` + pad + `"model":"b"}`, refused},
		{`"strict":"on"`, `{"a":"1","model":"1",` + pad + `"model":"b"}`, refused},
	} {
		for _, filters := range []string{early + "," + late(tc.settings), late(tc.settings) + "," + early} {
			s := newSite(t, handlerOf(t, `{"filters":[`+filters+`]}`))
			for _, http2 := range []bool{false, true} {
				for _, framing := range [][]string{nil, {"chunked"}} {
					s.check(t, client(t, http2), tc.body, tc.want, framing...)
				}
			}
		}
	}
}

// TestFarBehind checks a model behind 200 KB of other members.
func TestFarBehind(t *testing.T) {
	var others strings.Builder
	for i := 0; others.Len() < 200_000; i++ {
		fmt.Fprintf(&others, `"m%d":{"role":"user","content":["text",%d,true,null]},`, i, i)
	}
	body := "{" + others.String() + `"model":"a"}`
	for _, tc := range []struct {
		limit, onLimit string
		want           want
	}{
		{"1048576", reject, found("a")},
		{"1048576", proceed, found("a")},
		{"65536", reject, large},
		{"65536", proceed, want{http.StatusOK, "limit", ""}},
	} {
		byStrict(t, func(t *testing.T, strict string) {
			s := newSite(t, pipelineOf(t, fmt.Sprintf(`%s,"strict":"%s","limit":%s,"on_limit":"%s"`, model, strict, tc.limit, tc.onLimit), ""))
			for _, http2 := range []bool{false, true} {
				s.check(t, client(t, http2), body, tc.want)
				s.check(t, client(t, http2), body, tc.want, "chunked")
			}
		})
	}
}

// TestPipelineLimit checks bodies above the limit of the pipeline: they are refused before anything goes on.
func TestPipelineLimit(t *testing.T) {
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, model+`,"strict":"`+strict+`"`, `"request_body_limit":100,`))
		for _, http2 := range []bool{false, true} {
			for _, framing := range [][]string{nil, {"chunked"}} {
				s.check(t, client(t, http2), sized(100, true), found("a"), framing...)
				s.check(t, client(t, http2), sized(102, true), large, framing...)
				s.check(t, client(t, http2), sized(50000, true), large, framing...)
			}
		}
	})
}

// TestDeclaredTooLarge checks that a declared length alone is enough to refuse a body.
func TestDeclaredTooLarge(t *testing.T) {
	for name, filter := range map[string]string{
		"pipeline": pipelineOfLimit(`"request_body_limit":100,`, model),
		"filter":   pipelineOfLimit("", model+`,"limit":100`),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, handlerOf(t, filter))
			conn := sites.Dial(t, sites.Serve(t, s))
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n")
			res, err := http.ReadResponse(conn.Reader, nil)
			if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || s.taken() != nil {
				t.Errorf("got %v, %v", res, err)
			}
		})
	}
}

func pipelineOfLimit(settings, filter string) string {
	return fmt.Sprintf(`{%s"filters":[{"filter":{"filter":"json_field",%s}}]}`, settings, filter)
}
