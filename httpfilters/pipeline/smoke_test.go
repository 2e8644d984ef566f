package pipeline

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func post(t *testing.T, s *site, body string) (*http.Response, string) {
	t.Helper()
	res, err := http.Post(s.URL, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(got)
}

func upper(_ *Exchange, c *Chunk) (Action, error) {
	c.Replace(bytes.ToUpper(c.Bytes()))
	return Continue, nil
}

func TestSmoke(t *testing.T) {
	var order []string
	note := func(what string) { order = append(order, what) }
	h := newHandler(t,
		entry{
			name:        "a",
			request:     onRequest(func(x *Exchange) error { note("a request"); return x.Set("k", "v") }),
			requestBody: onRequestBody{Wish{Access: ReadWrite, Mode: Buffer, Whole: true}, upper},
			response:    onResponse(func(*Exchange) error { note("a response"); return nil }),
			log:         onLog(func(x *Exchange) { note("a log") }),
		},
		entry{
			name:         "b",
			request:      onRequest(func(*Exchange) error { note("b request"); return nil }),
			response:     onResponse(func(*Exchange) error { note("b response"); return nil }),
			responseBody: onResponseBody{Wish{Access: ReadWrite, Mode: Buffer, Whole: true}, upper},
			log:          onLog(func(x *Exchange) { note("b log") }),
		},
	)
	s := newSite(t, h)
	res, got := post(t, s, "hello")
	if res.StatusCode != http.StatusOK || got != "OK" || res.ContentLength != 2 {
		t.Errorf("got %v %q", res, got)
	}
	if r := s.taken(); len(r) != 1 || r[0].body != "HELLO" || r[0].ContentLength != 5 {
		t.Errorf("got %+v", r)
	}
	if want := "a request,b request,b response,a response,b log,a log"; strings.Join(order, ",") != want {
		t.Errorf("got %v", order)
	}
	if n := h.budget.Held.Load(); n != 0 {
		t.Errorf("got %d bytes held", n)
	}
}

func TestReject(t *testing.T) {
	h := newHandler(t, entry{name: "a", requestBody: onRequestBody{Wish{Access: ReadOnly, Mode: Buffer}, func(_ *Exchange, c *Chunk) (Action, error) {
		if bytes.Contains(c.Bytes(), []byte("bad")) {
			return Continue, Reject(http.StatusForbidden, errors.New("no"))
		}
		return Continue, nil
	}}})
	h.RequestBodyLimit = 10
	if err := h.plan(); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, h)
	for body, want := range map[string]int{
		"good": http.StatusOK, "bad": http.StatusForbidden, "0123456789": http.StatusOK, "01234567890": http.StatusRequestEntityTooLarge,
	} {
		res, _ := post(t, s, body)
		if res.StatusCode != want {
			t.Errorf("%s: got %d, want %d", body, res.StatusCode, want)
		}
	}
}
