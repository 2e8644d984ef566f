package forward

import (
	"sync"
	"time"
)

const (
	// firstProof is when a session is looked at for the first time, lastProof the age at which it has proven its endpoint
	// without a word from it: longer than a proxy in between tries to connect to what is behind it.
	firstProof = 5 * time.Millisecond
	lastProof  = 2 * time.Minute
	// proofGrowth is how much longer each wait between two looks is than the one before.
	proofGrowth = 4
)

// proof tells the cluster that an endpoint works, as soon as a session has shown it. It looks at the session now and then,
// so that nothing stands in the way of the bytes; where nobody waits for the news, it has no timer.
type proof struct {
	// mu guards the fields below.
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// begin starts to look, if the cluster waits for the news.
func (p *proof) begin(l *leased) {
	if !l.lease.Awaited() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	wait := firstProof
	p.timer = time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.over {
			return
		}
		age := time.Since(l.start)
		if l.Received() > 0 || age >= lastProof {
			l.lease.Proven()
			return
		}
		wait = min(wait*proofGrowth, lastProof-age)
		p.timer.Reset(wait)
	})
}

// end stops looking.
func (p *proof) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
