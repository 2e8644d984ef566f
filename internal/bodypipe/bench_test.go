package bodypipe

import (
	"bytes"
	"fmt"
	"testing"
)

// looker looks at chunks and lets go at once.
type looker struct{ bytes int }

func (l *looker) Filter(_ int, c *Chunk) (Action, error) {
	l.bytes += len(c.Bytes())
	return Release, nil
}

// waiter looks at chunks and waits for the end.
type waiter struct{ bytes int }

func (w *waiter) Filter(_ int, c *Chunk) (Action, error) {
	w.bytes += len(c.Bytes())
	return Continue, nil
}

// upper puts other bytes in the place of each chunk, in memory of its own.
type upper struct{ scratch []byte }

func (u *upper) Filter(_ int, c *Chunk) (Action, error) {
	u.scratch = append(u.scratch[:0], c.Bytes()...)
	for i := range u.scratch {
		u.scratch[i] &^= 0x20
	}
	c.Replace(u.scratch)
	return Continue, nil
}

// mustPush pushes a chunk that goes on, or is held, without an error.
func mustPush(tb testing.TB, p *Pipe, chunk []byte, end bool) {
	tb.Helper()
	if n, _, err := p.Push(chunk, end); n != len(chunk) || err != nil {
		tb.Fatalf("got %d of %d taken, %v", n, len(chunk), err)
	}
}

// TestChunksAllocateNothing pushes chunks that stream, and such that follow a release.
func TestChunksAllocateNothing(t *testing.T) {
	chunk := make([]byte, 4*kib)
	for _, tt := range []struct {
		name   string
		host   Host
		wishes []Wish
	}{
		{"no filters", nil, nil},
		{"stream", new(waiter), []Wish{reads, reads, reads}},
		{"stream, rewritten", new(upper), []Wish{writes}},
		{"size limit", new(waiter), []Wish{reads, {Mode: SizeLimit, Max: 1 << 40}}},
		{"released", new(looker), []Wish{peeks, edits}},
	} {
		var p Pipe
		budget := newBudget(0)
		p.Start(Setup{Plan: mustPlan(t, 0, tt.wishes...), Host: tt.host, Budget: budget})
		mustPush(t, &p, chunk, false)
		if got := testing.AllocsPerRun(100, func() { mustPush(t, &p, chunk, false) }); got != 0 {
			t.Errorf("%s: got %v allocations per chunk, want 0", tt.name, got)
		}
		wantHeld(t, budget, 0)
	}
}

// TestBodiesAllocateNothing has whole bodies pass, one after the other through one pipe.
func TestBodiesAllocateNothing(t *testing.T) {
	plan := mustPlan(t, 0, peeks, judges)
	host, budget, chunk := new(waiter), newBudget(0), make([]byte, 5*kib)
	var p Pipe
	body := func() {
		p.Start(Setup{Plan: plan, Host: host, Budget: budget, Skip: Set(0).With(0)})
		mustPush(t, &p, chunk, false)
		mustPush(t, &p, chunk, true)
		p.Close()
	}
	body()
	// The pools may be emptied meanwhile, and lose blocks on purpose under the race detector.
	if got := testing.AllocsPerRun(200, body); got >= 2 {
		t.Errorf("got %v allocations per body, want 0", got)
	}
}

// TestReleasedBodyHoldsNothing has a gibibyte follow a release.
func TestReleasedBodyHoldsNothing(t *testing.T) {
	var p Pipe
	budget, chunk := newBudget(64*kib), make([]byte, 32*kib)
	p.Start(Setup{Plan: mustPlan(t, 0, peeks), Host: new(looker), Budget: budget})
	for range 1 << 30 / len(chunk) {
		mustPush(t, &p, chunk, false)
		wantHeld(t, budget, 0)
	}
	mustPush(t, &p, nil, true)
	if p.Read() != 1<<30 {
		t.Errorf("got %d bytes read", p.Read())
	}
}

func BenchmarkChunk(b *testing.B) {
	for _, tt := range []struct {
		name   string
		host   Host
		wishes []Wish
	}{
		{"filters=0", nil, nil},
		{"filters=1", new(waiter), []Wish{reads}},
		{"filters=5", new(waiter), []Wish{reads, reads, reads, reads, reads}},
		{"released", new(looker), []Wish{peeks}},
		{"rewritten", new(upper), []Wish{writes}},
	} {
		b.Run(tt.name, func(b *testing.B) { benchmarkChunk(b, tt.host, mustPlan(b, 0, tt.wishes...)) })
	}
}

func benchmarkChunk(b *testing.B, h Host, plan *Plan) {
	chunk := make([]byte, 4*kib)
	var p Pipe
	p.Start(Setup{Plan: plan, Host: h, Budget: newBudget(0)})
	mustPush(b, &p, chunk, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := p.Push(chunk, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBody holds whole bodies back, which come in chunks of 4 KiB or in one piece.
func BenchmarkBody(b *testing.B) {
	for _, size := range []int{kib, 10 * kib, 100 * kib, 4 * mib} {
		for _, chunk := range []int{4 * kib, size} {
			b.Run(fmt.Sprintf("size=%d/chunk=%d", size, chunk), func(b *testing.B) { benchmarkBody(b, size, chunk) })
		}
	}
}

func benchmarkBody(b *testing.B, size, chunk int) {
	body := bytes.Repeat([]byte("x"), size)
	plan, h, budget := mustPlan(b, 0, judges), new(waiter), newBudget(0)
	var p Pipe
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		p.Start(Setup{Plan: plan, Host: h, Budget: budget})
		out, err := countOut(&p, body, chunk)
		if err != nil || out != size {
			b.Fatalf("got %d bytes, %v", out, err)
		}
		p.Close()
	}
}

// countOut pushes a body in chunks, copies nothing and returns how many bytes went on.
func countOut(p *Pipe, body []byte, chunk int) (out int, err error) {
	for !p.Ended() {
		in := body[:min(chunk, len(body))]
		n, got, err := p.Push(in, len(in) == len(body))
		if err != nil {
			return out, err
		}
		out, body = out+len(got), body[n:]
	}
	return out, nil
}

func BenchmarkTerms(b *testing.B) {
	plan := mustPlan(b, 0, reads, peeks, judges, writes)
	b.ReportAllocs()
	for b.Loop() {
		if plan.Terms(2).Idle() {
			b.Fatal("idle")
		}
	}
}
