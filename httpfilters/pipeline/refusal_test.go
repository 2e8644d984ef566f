package pipeline

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestRefusalStatus: a filter that rejects with a status that is no error has failed.
func TestRefusalStatus(t *testing.T) {
	refusing := func(status int) error {
		return &Rejection{Status: status, Body: []byte("no"), Cause: errors.New("its cause")}
	}
	for name, of := range map[string]func(status int) entry{
		"request":  func(s int) entry { return entry{request: onRequest(func(*Exchange) error { return refusing(s) })} },
		"response": func(s int) entry { return entry{response: onResponse(func(*Exchange) error { return refusing(s) })} },
		"request body": func(s int) entry {
			return entry{requestBody: onRequestBody{buffered, func(*Exchange, *Chunk) (Action, error) { return Continue, refusing(s) }}}
		},
		"response body": func(s int) entry {
			return entry{responseBody: onResponseBody{buffered, func(*Exchange, *Chunk) (Action, error) { return Continue, refusing(s) }}}
		},
	} {
		for status, want := range map[int]int{-1: 500, 0: 500, 99: 500, 101: 500, 200: 500, 399: 500, 400: 400, 599: 599, 600: 500, 1000: 500} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				e := of(status)
				e.name = "f"
				f := &flow{TB: t, handler: newHandler(t, e)}
				tr := f.get("/")
				if tr.Code != want || tr.panic != nil {
					t.Errorf("got %d, %v, want %d", tr.Code, tr.panic, want)
				}
				if want == 500 && (!strings.Contains(fmt.Sprint(tr.err), fmt.Sprintf("status %d, must be 400 to 599: its cause", status)) ||
					!strings.Contains(fmt.Sprint(tr.err), "filter f: ")) {
					t.Errorf("got error %v", tr.err)
				}
				e.open = true
				if tr := (&flow{TB: t, handler: newHandler(t, e)}).get("/"); want == 500 && tr.Code != 200 {
					t.Errorf("got %d, %v of a filter that may fail", tr.Code, tr.err)
				}
			})
		}
	}
}

// TestAcceptEncoding: what is asked for so that filters can read answers is each request's own.
func TestAcceptEncoding(t *testing.T) {
	f := &flow{TB: t, handler: newHandler(t, entry{name: "f", responseBody: onResponseBody{streamed, idle}})}
	f.next = func(w http.ResponseWriter, r *http.Request) error {
		if got := r.Header["Accept-Encoding"]; !slices.Equal(got, []string{"identity"}) {
			t.Errorf("got %q", got)
		}
		r.Header["Accept-Encoding"][0] = "gzip" // as the handler `headers` does
		_, err := io.WriteString(w, "ok")
		return err
	}
	f.get("/")
	f.get("/")
}

// TestResponseTakenBack: what a handler has put into the header for an answer that it hasn't begun isn't true of the one
// that a refused body gets, whether the handler fails because of it, or doesn't care and writes nothing.
func TestResponseTakenBack(t *testing.T) {
	for _, fails := range []bool{false, true} {
		f := &flow{TB: t, handler: newHandler(t, entry{name: "f", requestBody: onRequestBody{
			streamed,
			func(*Exchange, *Chunk) (Action, error) { return Continue, Reject(http.StatusTeapot, errTest) },
		}})}
		f.next = func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Etag", `"tag"`)
			w.Header().Set("Content-Length", "5")
			if _, err := io.ReadAll(r.Body); fails {
				return err
			}
			return nil
		}
		tr := f.do(httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
		tr.Header().Del("Connection")
		if tr.Code != http.StatusTeapot || len(tr.Header()) > 0 {
			t.Errorf("handler fails %v: got %d, %v, header %v", fails, tr.Code, tr.err, tr.Header())
		}
	}
}
