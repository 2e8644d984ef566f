package health

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestCrowd has many requests, checks, orders and reloads at once, and looks at what must hold at any time.
func TestCrowd(t *testing.T) {
	const workers, rounds, endpoints = 16, 400, 5
	o := outlier(2)
	o.Time, o.MaxPercent = 5*time.Millisecond, 60
	cfg := &Config{
		Limits: Limits{Requests: 12, Connections: 3, Pending: 2, Retries: 3}, Outlier: o, Retry: retries(3),
		Passive:   Passive{Thresholds: Thresholds{1, 3}, RetryAfter: 3 * time.Millisecond},
		SlowStart: SlowStart{Window: 50 * time.Millisecond},
	}
	r := newRig(t, cfg, endpoints)
	var users, others sync.WaitGroup
	for w := range workers {
		users.Go(func() {
			u := user{t: t, c: r.c, random: rand.New(rand.NewPCG(uint64(w), 3))}
			for range rounds {
				u.now = r.now.Add(time.Duration(u.random.IntN(rounds)) * time.Millisecond / 4)
				u.request()
			}
		})
	}
	stop := make(chan struct{})
	others.Go(func() { disturb(r.c, cfg, stop) })
	users.Wait()
	close(stop)
	others.Wait()
	r.wantIdle()
	for _, e := range r.c.byKey {
		if !e.idle() {
			t.Errorf("%s: got %d attempts and %d connections left", e.key, e.Load(), e.Connections())
		}
	}
	// How much of the rest happens is up to the scheduler.
	if s := r.c.Stats(); s.Attempts == 0 || s.Retries == 0 {
		t.Errorf("got %+v, want attempts and retries", s)
	}
}

// disturb changes what can be changed until it is stopped.
func disturb(c *Cluster, cfg *Config, stop <-chan struct{}) {
	random, now, events := rand.New(rand.NewPCG(9, 9)), t0, []Event(nil)
	for {
		select {
		case <-stop:
			return
		default:
		}
		now = now.Add(time.Duration(random.IntN(100)) * time.Microsecond)
		switch v := c.View(now); random.IntN(6) {
		case 0:
			c.Check(v.Endpoint(random.IntN(v.Len())), oneIn(random, 2), now)
		case 1:
			c.Override(v.Endpoint(0).Key(), Override{Mode: Mode(random.IntN(4))}, now)
		case 2:
			copied := *cfg
			c.Configure(&copied, now)
		case 3:
			if err := c.SetMembers(numbered(4+random.IntN(2)), now); err != nil {
				panic(err)
			}
		case 4:
			events = c.Events(events[:0])
		case 5:
			c.Statuses(now)
		}
	}
}

// user makes requests one after the other.
type user struct {
	t      *testing.T
	c      *Cluster
	random *rand.Rand
	now    time.Time
}

func (u *user) request() {
	var req Request
	if u.c.Admit(&req, u.now) != Granted {
		return
	}
	if s := u.c.Stats(); s.RequestsActive > 12 || s.ConnectionsActive > 16 || s.PendingActive > 2 || s.RetriesActive > 3 {
		u.t.Errorf("got more than the limits: %+v", s)
	}
	// The client may go at any time.
	var gone sync.WaitGroup
	if oneIn(u.random, 3) {
		gone.Go(func() { req.Finish() })
	}
	for u.attempt(&req) {
	}
	req.Finish()
	gone.Wait()
}

// attempt makes one attempt, and says whether there is to be another.
func (u *user) attempt(req *Request) bool {
	v := u.c.View(u.now)
	var a Attempt
	if v.Len() == 0 || req.Try(&a, v, u.random.IntN(v.Len()), u.now) != Granted {
		return false
	}
	var k Conn
	if u.c.Dial(&k, a.Endpoint()) != Granted {
		a.Done(Outcome{Kind: Aborted}, u.now)
		return false
	}
	runtime.Gosched()
	k.Connected()
	var closed sync.WaitGroup
	if oneIn(u.random, 4) {
		closed.Go(k.Close)
	}
	k.Idle()
	k.Reused()
	defer closed.Wait()
	defer k.Close()
	if oneIn(u.random, 3) {
		closed.Go(func() { a.Connected(u.now) })
	}
	if oneIn(u.random, 3) {
		a.Proven(u.now)
	}
	if oneIn(u.random, 3) {
		return !a.Done(Outcome{}, u.now)
	}
	f := failure(pick(u.random, Connect, Reset, Timeout))
	f.Reused = oneIn(u.random, 2)
	d := a.Fail(f, u.random.Uint64(), u.now)
	if a.Done(Outcome{}, u.now) {
		u.t.Error("an attempt was settled twice")
	}
	return d.Action != Stop
}
