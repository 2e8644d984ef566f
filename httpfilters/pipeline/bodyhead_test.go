package pipeline

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// asksHead is a filter for bodies that looks at the header before.
type asksHead struct {
	onRequestBody
	head func(*Exchange) error
}

func (f asksHead) RequestBodyHead(x *Exchange) error { return f.head(x) }

// noBody is the head hook of a filter that wants no body.
func noBody(*Exchange) error { return Reject(http.StatusTeapot, errors.New("no")) }

// headed returns an entry that is asked about the header.
func headed(wish Wish, head func(*Exchange) error, conditions ...condition) entry {
	return entry{name: "f", conditions: conditions, requestBody: asksHead{onRequestBody{wish, idle}, head}}
}

// TestBodyHead checks that a filter can refuse a body before anything of it is read, one that takes no part and a request
// without a body aside.
func TestBodyHead(t *testing.T) {
	fails, never := condition{match: caddyhttp.MatcherSets{{failingMatcher{}}}, want: true}, condition{want: false}
	whole := Wish{Access: ReadOnly, Mode: Buffer, Max: 100, Whole: true}
	allows := func(*Exchange) error { return nil }
	panics := func(*Exchange) error { panic("x") }
	changes := func(conditions ...condition) entry {
		return entry{name: "w", conditions: conditions, requestBody: onRequestBody{rewrite, idle}}
	}
	reads := entry{name: "r", requestBody: onRequestBody{whole, idle}}
	for name, tc := range map[string]struct {
		entries []entry
		length  int64
		status  int
	}{
		"refused":                  {[]entry{headed(whole, noBody)}, 5, http.StatusTeapot},
		"streams":                  {[]entry{headed(streamed, noBody)}, 5, http.StatusTeapot},
		"without a body":           {[]entry{headed(whole, noBody)}, 0, 0},
		"content":                  {[]entry{headed(whole, allows)}, 5, 0},
		"panics":                   {[]entry{headed(whole, panics)}, 5, http.StatusInternalServerError},
		"condition fails":          {[]entry{headed(whole, noBody, fails)}, 5, http.StatusInternalServerError},
		"takes no part":            {[]entry{reads, headed(whole, noBody, never)}, 5, 0},
		"behind one that reads":    {[]entry{reads, headed(whole, noBody)}, 5, http.StatusTeapot},
		"behind one that changes":  {[]entry{changes(), headed(whole, noBody)}, 5, 0},
		"behind one without part":  {[]entry{changes(never), headed(whole, noBody)}, 5, http.StatusTeapot},
		"in front of one":          {[]entry{headed(whole, noBody), changes()}, 5, http.StatusTeapot},
		"changes the body itself":  {[]entry{headed(rewrite, noBody)}, 5, http.StatusTeapot},
		"second one that is asked": {[]entry{headed(whole, allows), headed(whole, noBody)}, 5, http.StatusTeapot},
	} {
		t.Run(name, func(t *testing.T) {
			body, h := bytes.NewReader([]byte("hello")[:tc.length]), newHandler(t, tc.entries...)
			before := body.Len()
			err := h.ServeHTTP(httptest.NewRecorder(), posted(t, body, tc.length), caddyhttp.HandlerFunc(answer))
			failure, _ := errors.AsType[caddyhttp.HandlerError](err)
			if failure.StatusCode != tc.status || (err != nil) != (tc.status > 0) || tc.status > 0 && body.Len() != before {
				t.Errorf("got %v, %d bytes of %d left, want status %d", err, body.Len(), before, tc.status)
			}
			checkNoneHeld(t, h)
		})
	}
}

// TestBodyHeadWithoutLength checks that of a body without a length no more is read than what tells that there is one.
func TestBodyHeadWithoutLength(t *testing.T) {
	const most = 1 << 20
	long := strings.Repeat("x", most/2)
	for name, tc := range map[string]struct {
		wish   Wish
		body   string
		expect bool
		// status is that of the answer, left how many bytes are there still, at least.
		status, left int
	}{
		"held":     {Wish{Access: ReadOnly, Mode: Buffer, Max: most, Whole: true}, long, false, http.StatusTeapot, len(long) - smallBuffer},
		"pieces":   {Wish{Access: ReadOnly, Mode: Buffer, Max: most}, long, false, http.StatusTeapot, len(long) - smallBuffer},
		"expected": {Wish{Access: ReadOnly, Mode: Buffer, Max: most}, long, true, http.StatusTeapot, len(long)},
		"streams":  {streamed, long, false, 0, 0},
		"empty":    {Wish{Access: ReadOnly, Mode: Buffer, Max: most, Whole: true}, "", false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			body, h := strings.NewReader(tc.body), newHandler(t, headed(tc.wish, noBody))
			r := posted(t, body, -1)
			if tc.expect {
				r.Header.Set("Expect", "100-continue")
			}
			err := h.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(answer))
			failure, _ := errors.AsType[caddyhttp.HandlerError](err)
			if failure.StatusCode != tc.status || body.Len() < tc.left || tc.status == 0 && (err != nil || body.Len() > 0) {
				t.Errorf("got %v, %d bytes of %d left, want status %d", err, body.Len(), len(tc.body), tc.status)
			}
			checkNoneHeld(t, h)
		})
	}
}

// A body that ends with an error before its first byte is the client's mistake, as any other.
func TestBodyHeadBroken(t *testing.T) { checkMalformed(t, newHandler(t, headed(rewrite, noBody))) }

// checkNoneHeld checks that nothing is held of any body.
func checkNoneHeld(t *testing.T, h *Handler) {
	t.Helper()
	if held := h.budget.Held.Load(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}
