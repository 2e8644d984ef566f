package pipeline

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// TestLawsHTTP2 is TestLaws by HTTP/2, where bodies without a declared length aren't chunked, and a torn response is a
// stream that is reset.
func TestLawsHTTP2(t *testing.T) {
	server := newLawServer(t)
	rng := rand.New(rand.NewPCG(7, 3))
	for range 1500 {
		w := (&tape{randomTape(rng)}).world()
		p := newPassage(t, w)
		p.runHTTP2(server)
		if p.check(); t.Failed() {
			t.Logf("%v\ncalls %v", w, p.calls)
			return
		}
	}
}

// runHTTP2 sends the request and reads the answer.
func (p *passage) runHTTP2(server *lawServer) {
	dialled := false
	transport := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if dialled {
				return nil, errors.New("one request has one connection")
			}
			dialled = true
			near, far := net.Pipe()
			server.conns <- &lawConn{far, p}
			return near, nil
		},
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(p.t.Context(), sites.Patience)
	defer cancel()
	if p.response, p.responseErr = transport.RoundTrip(p.requestHTTP2(ctx)); p.responseErr == nil {
		p.got, p.responseErr = io.ReadAll(p.response.Body)
		p.response.Body.Close()
		if p.response.ProtoMajor != 2 {
			p.t.Errorf("got an answer by %s", p.response.Proto)
		}
	}
	<-p.served
	if ctx.Err() != nil {
		p.t.Fatal(ctx.Err())
	}
}

// requestHTTP2 returns the request.
func (p *passage) requestHTTP2(ctx context.Context) *http.Request {
	w := p.w
	r, err := http.NewRequestWithContext(ctx, w.method, "http://h/", &reader{pieces: pieces(w.bodies[toNext], w.cuts[toNext])})
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Digest", "d")
	switch {
	case !w.declared[toNext]:
		r.ContentLength = -1
	case len(w.bodies[toNext]) == 0:
		r.Body = http.NoBody
	default:
		r.ContentLength = int64(len(w.bodies[toNext]))
	}
	if w.trailers {
		r.Trailer = http.Header{"X-Sum": {"1"}}
	}
	return r
}

// reader reads pieces, one at a time.
type reader struct{ pieces [][]byte }

// Read implements io.Reader.
func (r *reader) Read(to []byte) (int, error) {
	for len(r.pieces) > 0 && len(r.pieces[0]) == 0 {
		r.pieces = r.pieces[1:]
	}
	if len(r.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(to, r.pieces[0])
	r.pieces[0] = r.pieces[0][n:]
	return n, nil
}
