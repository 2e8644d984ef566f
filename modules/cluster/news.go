package cluster

import (
	"slices"
	"sync"
)

// maxNews is how many events of a cluster wait for their subscribers: each endpoint of a large cluster may go down and come
// back meanwhile.
const maxNews = 1024

// notice is an event that is to be emitted.
type notice struct {
	// endpoint is the one that it is about; empty if it is about the cluster.
	endpoint, name string
	data           map[string]any
}

// news are the events that wait to be emitted, whichever config emits them. A subscriber may take its time, and may even
// reload Caddy: nobody who has something to tell waits for it, and no stop does.
type news struct {
	// mu guards what follows.
	mu   sync.Mutex
	list []notice
	// run is the number of the keeper that is at work, runs that of the last one; 0 means none.
	run, runs uint64
	// emitting says that events of this run are being emitted.
	emitting bool
	lost     uint64
}

// begin says that a keeper begins its work. What the one before has not emitted is its.
func (n *news) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs++
	n.run, n.emitting = n.runs, false
}

// end says that the keeper has ended. What is being emitted is the last thing that is.
func (n *news) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.run = 0
}

// add appends notices, and returns the number of the run for which somebody has to begin to emit; 0 if nobody has to. If
// there are too many, the oldest one about the same endpoint, or about the cluster, makes room: what is known last counts.
func (n *news) add(notices ...notice) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range notices {
		if len(n.list) >= maxNews {
			same := slices.IndexFunc(n.list, func(old notice) bool { return old.endpoint == one.endpoint })
			n.list = slices.Delete(n.list, max(same, 0), max(same, 0)+1)
			n.lost++
		}
		n.list = append(n.list, one)
	}
	if n.run == 0 || n.emitting || len(n.list) == 0 {
		return 0
	}
	n.emitting = true
	return n.run
}

// next takes the next notice for a run. There is none if the run has ended.
func (n *news) next(run uint64) (one notice, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != run {
		return notice{}, false
	}
	if len(n.list) == 0 {
		n.emitting = false
		return notice{}, false
	}
	one = n.list[0]
	n.list = slices.Delete(n.list, 0, 1)
	return one, true
}

// dropped returns how many notices have made room for others.
func (n *news) dropped() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// announce emits notices, after those that wait.
func (c *Cluster) announce(notices ...notice) {
	if run := c.state.news.add(notices...); run != 0 {
		go c.emit(run)
	}
}

// emit emits what waits until there is no more, or until the keeper of the run has ended. Its owner is that keeper. Nobody
// waits for it: a subscriber may be waiting for the stop.
func (c *Cluster) emit(run uint64) {
	for {
		one, ok := c.state.news.next(run)
		if !ok {
			return
		}
		c.events.Emit(c.ctx, one.name, one.data)
	}
}
