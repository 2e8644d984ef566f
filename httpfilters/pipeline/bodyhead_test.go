package pipeline

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// asksHead is a filter for bodies that looks at the header before.
type asksHead struct {
	onRequestBody
	head func(*Exchange) error
}

func (f asksHead) RequestBodyHead(x *Exchange) error { return f.head(x) }

// TestBodyHead checks that a filter can refuse a body before anything of it is read, one that takes no part and a request
// without a body aside.
func TestBodyHead(t *testing.T) {
	never := []condition{{match: caddyhttp.MatcherSets{{failingMatcher{}}}, want: true}}
	refuses := func(*Exchange) error { return Reject(http.StatusTeapot, errors.New("no")) }
	whole := Wish{Access: ReadOnly, Mode: Buffer, Max: 100, Whole: true}
	for name, tc := range map[string]struct {
		entry  entry
		length int64
		status int
	}{
		"refused":           {entry{name: "f", requestBody: asksHead{onRequestBody{whole, idle}, refuses}}, 5, http.StatusTeapot},
		"of unknown length": {entry{name: "f", requestBody: asksHead{onRequestBody{whole, idle}, refuses}}, -1, http.StatusTeapot},
		"streams":           {entry{name: "f", requestBody: asksHead{onRequestBody{streamed, idle}, refuses}}, 5, http.StatusTeapot},
		"without a body":    {entry{name: "f", requestBody: asksHead{onRequestBody{whole, idle}, refuses}}, 0, 0},
		"content":           {entry{name: "f", requestBody: asksHead{onRequestBody{whole, idle}, func(*Exchange) error { return nil }}}, 5, 0},
		"panics":            {entry{name: "f", requestBody: asksHead{onRequestBody{whole, idle}, func(*Exchange) error { panic("x") }}}, 5, http.StatusInternalServerError},
		"condition fails":   {entry{name: "f", conditions: never, requestBody: asksHead{onRequestBody{whole, idle}, refuses}}, 5, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			body, h := bytes.NewReader([]byte("hello")[:max(0, tc.length)]), newHandler(t, tc.entry)
			if tc.length < 0 {
				body = bytes.NewReader([]byte("hello"))
			}
			before := body.Len()
			err := h.ServeHTTP(httptest.NewRecorder(), posted(t, body, tc.length), caddyhttp.HandlerFunc(answer))
			failure, _ := errors.AsType[caddyhttp.HandlerError](err)
			if failure.StatusCode != tc.status || tc.status > 0 && body.Len() != before {
				t.Errorf("got %v, %d bytes of %d left, want status %d", err, body.Len(), before, tc.status)
			}
			if held := h.budget.Held.Load(); held != 0 {
				t.Errorf("%d bytes are held", held)
			}
		})
	}
}
