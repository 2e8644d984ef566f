package l4sni

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
	"github.com/caddy-sluice/sluice/modules/session"
)

// reading is what one call of read gave, with the session of the connection.
type reading struct {
	*result
	sess *session.Session
}

// read runs a reader on a connection of which pending was read before.
func read(p *prereader, conn net.Conn, pending []byte) reading {
	cx := layer4.WrapConnection(conn, slices.Clone(pending), zap.NewNop())
	sess := session.Of(cx)
	return reading{p.read(cx, sess), sess}
}

// capped is a reader that reads at most so many bytes.
func capped(t *testing.T, limit int) *prereader {
	t.Helper()
	return &prereader{cfg: preread.Config{MaxBytes: limit, Timeout: preread.DefaultTimeout}, app: newApp(t)}
}

func (r *reading) check(t *testing.T, kind preread.Kind, reason preread.Reason) {
	t.Helper()
	if r.err != nil || r.verdict.Kind != kind || r.verdict.Reason != reason {
		t.Fatalf("got kind %d, reason %v, error %v, want kind %d, reason %v, no error", r.verdict.Kind, r.verdict.Reason, r.err, kind, reason)
	}
	if r.sess.Reason != reason || !r.sess.Preread {
		t.Errorf("got %v and preread %v in the session, want %v and true", r.sess.Reason, r.sess.Preread, reason)
	}
}

// checkStream checks that what is read from the connection now is all that the client has sent.
func (r *reading) checkStream(t *testing.T, want []byte) {
	t.Helper()
	got, err := io.ReadAll(r.cx)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got a stream of %d bytes that is not the one of %d bytes sent", len(got), len(want))
	}
}

// longHello needs more bytes than any limit in these tests.
var longHello = hellos.New(hellos.Options{ServerName: "a.example.com", Pad: 60_000})

// TestReadLimit checks that an undecided connection is read up to the limit and not a byte further.
func TestReadLimit(t *testing.T) {
	for _, limit := range []int{5, 16, 1023, 1024, 1025, 2047, 2048, 3000, 16384, 32768, 50_000} {
		for _, chunk := range []int{0, 1, 7, 1000} {
			conn := &script{data: longHello, chunk: chunk}
			r := read(capped(t, limit), conn, nil)
			r.check(t, preread.Reject, preread.TooLarge)
			if got := len(longHello) - len(conn.data); got != limit {
				t.Errorf("limit %d, reads of %d: got %d bytes read, want the limit", limit, chunk, got)
			}
			r.checkStream(t, longHello)
		}
	}
}

// TestReadLimitQueued is the case of a small limit and a long queue: the rest stays in the socket.
func TestReadLimitQueued(t *testing.T) {
	queued := longHello[:4096]
	conn := &script{data: queued}
	r := read(capped(t, 16), conn, nil)
	r.check(t, preread.Reject, preread.TooLarge)
	if !slices.Equal(conn.asked, []int{16}) {
		t.Errorf("got reads of %v, want one of 16", conn.asked)
	}
	r.checkStream(t, queued)
}

// TestWindowGrowth checks that the window begins at 1 KiB and grows threefold, up to exactly the limit.
func TestWindowGrowth(t *testing.T) {
	for _, tc := range []struct {
		limit int
		want  []int // room in each read, when all of it is filled
	}{
		{32768, []int{1024, 2048, 6144, 18432, 5120}},
		{16384, []int{1024, 2048, 6144, 7168}},
		{5000, []int{1024, 2048, 1928}},
		{1025, []int{1024, 1}},
		{1024, []int{1024}},
		{5, []int{5}},
	} {
		conn := &script{data: longHello}
		r := read(capped(t, tc.limit), conn, nil)
		r.check(t, preread.Reject, preread.TooLarge)
		if !slices.Equal(conn.asked, tc.want) {
			t.Errorf("limit %d: got reads of %v, want %v", tc.limit, conn.asked, tc.want)
		}
	}
}

// TestWindowFillsBeforeItGrows checks that short reads don't make the window grow.
func TestWindowFillsBeforeItGrows(t *testing.T) {
	conn := &script{data: hello("a.example.com"), chunk: 10}
	r := read(capped(t, 32768), conn, nil)
	r.check(t, preread.Routed, preread.None)
	for i, room := range conn.asked {
		if want := 1024 - 10*i; room != want {
			t.Errorf("read %d: got room for %d, want %d", i, room, want)
		}
	}
}

// TestReadKeepsPayload sends a hello and much behind it at once: what is beyond the limit stays in the socket.
func TestReadKeepsPayload(t *testing.T) {
	const limit = 600
	sent := slices.Concat(hello("a.example.com"), bytes.Repeat([]byte{0x17}, 2*limit))
	conn := &script{data: sent}
	r := read(capped(t, limit), conn, nil)
	r.check(t, preread.Routed, preread.None)
	if got := len(sent) - len(conn.data); got != limit {
		t.Errorf("got %d bytes read, want %d", got, limit)
	}
	r.checkStream(t, sent)
}

// TestPending puts the boundary between what a matcher has read and what is still in the socket everywhere.
func TestPending(t *testing.T) {
	sent := append(hellos.Find("go-1.26-pq").Bytes, "payload"...)
	for n := range len(sent) + 1 {
		conn := &script{data: sent[n:]}
		r := read(capped(t, 32768), conn, sent[:n])
		r.check(t, preread.Routed, preread.None)
		if got := r.sess.Hello.ServerName; got != "go.example.com" {
			t.Fatalf("%d bytes pending: got name %q, want go.example.com", n, got)
		}
		r.checkStream(t, sent)
	}
}

// TestPendingCounts checks that pending bytes count towards the limit.
func TestPendingCounts(t *testing.T) {
	for _, tc := range []struct {
		name          string
		pending, want int // want is what may still be read
	}{
		{"below the limit", 1500, 548},
		{"one byte short", 2047, 1},
		{"at the limit", 2048, 0},
		{"beyond the limit", 4096, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rest := longHello[tc.pending:]
			conn := &script{data: rest}
			r := read(capped(t, 2048), conn, longHello[:tc.pending])
			r.check(t, preread.Reject, preread.TooLarge)
			if got := len(rest) - len(conn.data); got != tc.want {
				t.Errorf("got %d bytes read, want %d", got, tc.want)
			}
			r.checkStream(t, longHello)
		})
	}
}

// TestPendingHello checks that nothing is read and no deadline is set when the verdict is there already.
func TestPendingHello(t *testing.T) {
	conn := new(script)
	r := read(capped(t, 16), conn, hello("a.example.com"))
	r.check(t, preread.Routed, preread.None)
	if len(conn.asked)+len(conn.deadlines) > 0 {
		t.Errorf("got %d reads and %d deadlines, want none", len(conn.asked), len(conn.deadlines))
	}
}

// TestDeadlineIsSetOnce checks that the deadline counts from the session's start, whatever the number of reads, and
// is gone in the end.
func TestDeadlineIsSetOnce(t *testing.T) {
	for name, data := range map[string][]byte{"routed": hello("a.example.com"), "rejected": longHello, "closed": longHello[:100]} {
		t.Run(name, func(t *testing.T) {
			conn := &script{data: data, chunk: 10}
			r := read(capped(t, 1000), conn, nil)
			want := []time.Time{r.sess.Start.Add(preread.DefaultTimeout), {}}
			if !slices.Equal(conn.deadlines, want) {
				t.Errorf("got deadlines %v, want %v", conn.deadlines, want)
			}
		})
	}
}

// silent says whether the connection was ended without being counted.
func (r *reading) silent() bool { return r.sess.CloseReason() != session.Open }

// TestClosed checks what a connection is that ends, with and without a byte.
func TestClosed(t *testing.T) {
	whole := hello("a.example.com")
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for _, tc := range []struct {
		name   string
		conn   script
		kind   preread.Kind
		reason preread.Reason
		silent bool
	}{
		{"S05_end_without_a_byte", script{}, preread.Reject, preread.FrontClosed, true},
		{"S06_reset_without_a_byte", script{end: reset}, preread.Reject, preread.FrontClosed, true},
		{"S07_end_after_a_byte", script{data: whole[:1]}, preread.Reject, preread.FrontClosed, false},
		{"S07_reset_after_half_a_hello", script{data: whole[:len(whole)/2], end: reset}, preread.Reject, preread.FrontClosed, false},
		{"end_together_with_half_a_hello", script{data: whole[:20], withData: true}, preread.Reject, preread.FrontClosed, false},
		{"end_together_with_the_hello", script{data: whole, withData: true}, preread.Routed, preread.None, false},
		{"reset_together_with_the_hello", script{data: whole, withData: true, end: reset}, preread.Routed, preread.None, false},
		{"end_together_with_rubbish", script{data: []byte("GET /"), withData: true}, preread.Reject, preread.NotTLS, false},
		{"no_deadline_can_be_set", script{data: whole, deadlineErr: net.ErrClosed}, preread.Reject, preread.FrontClosed, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := read(capped(t, 32768), &tc.conn, nil)
			r.check(t, tc.kind, tc.reason)
			if r.silent() != tc.silent {
				t.Errorf("got silent %v, want %v", r.silent(), tc.silent)
			}
		})
	}
}

// TestUDP checks that datagrams are refused before anything is read.
func TestUDP(t *testing.T) {
	conn := &script{data: hello("a.example.com"), local: &net.UDPAddr{Port: 443}}
	r := read(capped(t, 32768), conn, nil)
	if !errors.Is(r.err, errUDP) || r.sess.Preread {
		t.Errorf("got error %v, preread %v, want %v, false", r.err, r.sess.Preread, errUDP)
	}
	if len(conn.asked) > 0 {
		t.Error("got a read, want none")
	}
}

// TestReadRecorded reads the hellos of real clients, in one piece and byte by byte.
func TestReadRecorded(t *testing.T) {
	for _, rec := range hellos.Recorded() {
		for _, chunk := range []int{0, 1} {
			r := read(capped(t, 32768), &script{data: rec.Bytes, chunk: chunk}, nil)
			r.check(t, preread.Routed, preread.None)
			got := r.sess.Hello
			if got.ServerName != rec.ServerName && rec.Name != "curl-7.88-ip" || !slices.Equal(got.ALPN.Strings(), rec.ALPN) ||
				got.ECH != rec.ECH || got.Size != rec.Hello || got.Records != rec.Records {
				t.Errorf("%s: got %+v, want %+v", rec.Name, got, rec)
			}
			r.checkStream(t, rec.Bytes)
		}
	}
}

// TestHelloIsKept checks that the session's hello does not live in the window, which is given away.
func TestHelloIsKept(t *testing.T) {
	r := read(capped(t, 32768), &script{data: hello("a.example.com", "h2")}, nil)
	clear(r.cx.Conn.(*replay.Conn).Take())
	if r.sess.Hello.ServerName != "a.example.com" || !slices.Equal(r.sess.Hello.ALPN.Strings(), []string{"h2"}) {
		t.Errorf("got %+v, want a.example.com and h2", r.sess.Hello)
	}
}

// TestReadAllocations checks that the cost of a connection does not depend on how its hello is cut. The ceiling: the
// window and its doubling for a post-quantum hello, the two connections around the rest, the hello that is kept, with
// its name and its list, the reader, the result, and what it takes to read on another stack.
func TestReadAllocations(t *testing.T) {
	const ceiling = 13
	flight := hellos.Find("go-1.26-pq").Bytes
	for _, chunk := range []int{0, 100, 1} {
		p := capped(t, 32768)
		conn := &script{chunk: chunk, asked: make([]int, 0, 2000), deadlines: make([]time.Time, 0, 2)}
		cx := layer4.WrapConnection(conn, nil, zap.NewNop())
		sess := session.Of(cx)
		got := testing.AllocsPerRun(100, func() {
			conn.data, conn.asked, conn.deadlines = flight, conn.asked[:0], conn.deadlines[:0]
			if r := p.read(cx, sess); r.err != nil || r.verdict.Kind != preread.Routed {
				t.Errorf("got %v, %v, want a route", r.verdict, r.err)
			}
		})
		if got > ceiling {
			t.Errorf("reads of %d: got %v allocations, want at most %d", chunk, got, ceiling)
		}
	}
}
