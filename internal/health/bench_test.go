package health

import (
	"testing"
	"time"
)

// busy is a policy with everything in it that a request meets.
func busy() *Config {
	c := whole()
	c.Limits = Limits{1 << 20, 1 << 20, 1 << 20, 1 << 20}
	c.Passive.Statuses.Add(500, 599)
	return c
}

func benchCluster(b *testing.B, n int) (*Cluster, *View) {
	b.Helper()
	c := NewCluster(busy(), t0)
	if err := c.SetMembers(numbered(n), t0); err != nil {
		b.Fatal(err)
	}
	return c, c.View(t0)
}

// BenchmarkSettle is the end of an attempt that went well.
func BenchmarkSettle(b *testing.B) {
	c, v := benchCluster(b, 8)
	var req Request
	c.Admit(&req, t0)
	var a Attempt
	req.Try(&a, v, 0, t0)
	b.ReportAllocs()
	for b.Loop() {
		a.state.Store(attemptOpen)
		a.e.attempts.add(1, 0)
		a.Done(Answered(200), t0)
	}
}

// BenchmarkSettleAfterFailure is the end of one at an endpoint that is being watched: under the lock.
func BenchmarkSettleAfterFailure(b *testing.B) {
	c, v := benchCluster(b, 8)
	var req Request
	c.Admit(&req, t0)
	var a Attempt
	req.Try(&a, v, 0, t0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		a.state.Store(attemptOpen)
		a.e.attempts.add(1, 0)
		a.Done(Outcome{Kind: pick2(i, Connect, Success)}, t0)
	}
}

func pick2(i int, a, b Kind) Kind {
	if i%2 == 0 {
		return a
	}
	return b
}

// BenchmarkRequest is all that a request asks of a cluster.
func BenchmarkRequest(b *testing.B) {
	c, _ := benchCluster(b, 8)
	b.ReportAllocs()
	var req Request
	var a Attempt
	for b.Loop() {
		request(c, &req, &a)
	}
}

// BenchmarkRequestParallel is the same from all processors.
func BenchmarkRequestParallel(b *testing.B) {
	c, _ := benchCluster(b, 8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var req Request
		var a Attempt
		for pb.Next() {
			request(c, &req, &a)
		}
	})
}

func request(c *Cluster, req *Request, a *Attempt) {
	c.Admit(req, t0)
	v := c.View(t0)
	for i := range v.Len() {
		if v.Offers(i) {
			req.Try(a, v, i, t0)
			break
		}
	}
	a.Done(Answered(200), t0)
	req.Finish()
}

// BenchmarkView is the question for the view when nothing has changed.
func BenchmarkView(b *testing.B) {
	c, _ := benchCluster(b, 8)
	b.ReportAllocs()
	for b.Loop() {
		c.View(t0)
	}
}

// BenchmarkConn is a connection from its dial to its end, with one stay in a pool.
func BenchmarkConn(b *testing.B) {
	c, v := benchCluster(b, 8)
	b.ReportAllocs()
	var k Conn
	for b.Loop() {
		c.Dial(&k, v.Endpoint(0))
		k.Connected()
		k.Idle()
		k.Reused()
		k.Close()
	}
}

// BenchmarkRetry is a failure that is to be tried again.
func BenchmarkRetry(b *testing.B) {
	cfg := busy()
	cfg.Outlier, cfg.Passive = Outlier{}, Passive{}
	c := NewCluster(cfg, t0)
	if err := c.SetMembers(numbered(2), t0); err != nil {
		b.Fatal(err)
	}
	v := c.View(t0)
	b.ReportAllocs()
	var req Request
	var a Attempt
	for b.Loop() {
		c.Admit(&req, t0)
		req.Try(&a, v, 0, t0)
		a.Fail(failure(Connect), 12345, t0)
		req.Finish()
	}
}

// BenchmarkRebuild makes the view of a large cluster anew.
func BenchmarkRebuild(b *testing.B) {
	c, v := benchCluster(b, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Override("500", Override{Mode: Mode(2 * (i % 2))}, t0)
		if i%1000 == 0 {
			c.Events(nil)
		}
	}
	_ = v
}

// TestRequestAllocatesNothing: neither a request that goes well nor one that is tried again.
func TestRequestAllocatesNothing(t *testing.T) {
	r := newRig(t, busy(), 8)
	var req Request
	var a Attempt
	var k Conn
	now := t0
	got := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		v := r.c.View(now)
		r.c.Admit(&req, now)
		req.Try(&a, v, 1, now)
		r.c.Dial(&k, a.Endpoint())
		a.Fail(failure(Connect), 7, now)
		k.Close()
		req.Try(&a, v, 1, now)
		a.Done(Answered(200), now)
		req.Finish()
	})
	if got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}
