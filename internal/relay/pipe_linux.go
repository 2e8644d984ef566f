package relay

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// The sizes of pipes, best first. 256 KiB keeps most of what 1 MiB gains.
	largePipe  = 1 << 20
	mediumPipe = 256 << 10
	// smallestPipe is the size from which splicing beats copying with 64 KiB buffers. The kernel gives an
	// unprivileged user who is over his quota two pages.
	smallestPipe = 128 << 10
	// retryPipes is how long nobody tries to make a pipe after the kernel refused one.
	retryPipes = time.Second
	// trimPipes is how often pipes that were not in use are closed.
	trimPipes = 5 * time.Second
)

// pipe is a pipe with nothing in it, unless it is a direction's.
type pipe struct {
	r, w int
	size int
}

// pipePool is a bounded set of pipes, those in use included.
type pipePool struct {
	limits pipeLimits

	// mu guards the fields below.
	mu sync.Mutex
	// large and medium are the free pipes; the last one given back goes out first.
	large, medium shelf
	// made and used are the number and the sizes of all pipes, free or in use.
	made, used int
	// retry is when pipes may be made again.
	retry time.Time
	// trimming is set while a timer is to call trim.
	trimming bool
}

// shelf holds free pipes, and the fewest that it held since the last trim.
type shelf struct {
	pipes []*pipe
	low   int
}

// sharedPipes is the pool of the process: the quota it keeps to is one of the whole process, or more.
var sharedPipes = sync.OnceValue(func() *pipePool { return &pipePool{limits: readPipeLimits()} })

// take returns an empty pipe of at least smallestPipe, or nil if there is none to be had now.
func (p *pipePool) take() *pipe {
	p.mu.Lock()
	got := p.large.pop()
	if got == nil {
		got = p.medium.pop()
	}
	size := 0
	if got == nil {
		size = p.reserve()
	}
	p.mu.Unlock()
	if size > 0 {
		got = p.create(size)
	}
	return got
}

// giveBack takes an empty pipe back.
func (p *pipePool) giveBack(q *pipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := &p.medium
	if q.size >= largePipe {
		to = &p.large
	}
	to.pipes = append(to.pipes, q)
	if !p.trimming {
		p.trimming = true
		time.AfterFunc(trimPipes, p.trim)
	}
}

// discard closes a pipe that was taken.
func (p *pipePool) discard(q *pipe) {
	q.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made--
	p.used -= q.size
}

// reserve makes room for a new pipe and returns its size, or 0. A third of the room goes to large pipes; the rest is
// left to medium ones, of which there are more.
func (p *pipePool) reserve() int {
	size := largePipe
	if p.used+size > p.limits.bytes/3 || size > p.limits.largest {
		size = mediumPipe
	}
	if p.made >= p.limits.count || p.used+size > p.limits.bytes {
		return 0
	}
	if !p.retry.IsZero() && time.Now().Before(p.retry) {
		return 0
	}
	p.made++
	p.used += size
	return size
}

// create makes a pipe for which room was reserved.
func (p *pipePool) create(size int) *pipe {
	q := newPipe(size)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= size
	if q == nil {
		p.made--
		p.retry = time.Now().Add(retryPipes)
		return nil
	}
	p.used += q.size
	p.retry = time.Time{}
	return q
}

// trim closes the pipes that were free all the time since the last trim. A timer calls it for as long as there are
// free ones.
func (p *pipePool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range []*shelf{&p.large, &p.medium} {
		for _, q := range s.surplus() {
			q.close()
			p.made--
			p.used -= q.size
		}
	}
	p.trimming = len(p.large.pipes)+len(p.medium.pipes) > 0
	if p.trimming {
		time.AfterFunc(trimPipes, p.trim)
	}
}

// pop takes the pipe that was given back last.
func (s *shelf) pop() *pipe {
	last := len(s.pipes) - 1
	if last < 0 {
		return nil
	}
	q := s.pipes[last]
	s.pipes = s.pipes[:last]
	s.low = min(s.low, last)
	return q
}

// surplus removes the pipes that nobody needed, which are those at the bottom.
func (s *shelf) surplus() []*pipe {
	out := slices.Clone(s.pipes[:s.low])
	s.pipes = slices.Delete(s.pipes, 0, s.low)
	s.low = len(s.pipes)
	return out
}

// newPipe makes a pipe of the size, or of whatever else from smallestPipe up the kernel gives.
func newPipe(size int) *pipe {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil
	}
	q := &pipe{r: fds[0], w: fds[1]}
	for ; size >= smallestPipe; size /= 4 {
		if _, err := unix.FcntlInt(uintptr(q.w), unix.F_SETPIPE_SZ, size); err == nil {
			break
		}
	}
	got, err := unix.FcntlInt(uintptr(q.w), unix.F_GETPIPE_SZ, 0)
	if err != nil || got < smallestPipe {
		q.close()
		return nil
	}
	q.size = got
	return q
}

func (q *pipe) close() {
	_ = unix.Close(q.r)
	_ = unix.Close(q.w)
}
