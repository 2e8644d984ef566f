package relay

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownPipes returns a pool for one test, and checks that it gets back what it gave out.
func ownPipes(t testing.TB) *pipePool {
	t.Helper()
	return limitedPipes(t, readPipeLimits())
}

func limitedPipes(t testing.TB, limits pipeLimits) *pipePool {
	t.Helper()
	p := &pipePool{limits: limits}
	t.Cleanup(func() {
		p.trim()
		p.trim()
		if made, used := p.total(); made != 0 || used != 0 {
			t.Errorf("pipes not given back: %d of %d bytes", made, used)
		}
	})
	return p
}

func (p *pipePool) total() (made, used int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made, p.used
}

func (p *pipePool) free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.large.pipes) + len(p.medium.pipes)
}

// Whatever the pool allows, the bytes and the counts are right.
func TestPoolLimits(t *testing.T) {
	tests := []struct {
		name    string
		limits  pipeLimits
		spliced bool
	}{
		{"many", pipeLimits{bytes: 64 << 20, count: 100, largest: 1 << 20}, true},
		{"one medium pipe for two directions", pipeLimits{bytes: 256 << 10, count: 1, largest: 1 << 20}, true},
		{"no files", pipeLimits{bytes: 64 << 20, count: 0, largest: 1 << 20}, false},
		{"no bytes", pipeLimits{bytes: 64 << 10, count: 100, largest: 1 << 20}, false},
	}
	const size = 10 << 20
	up, down := random(t, size), random(t, size)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := prepare(t, tcpPair, tcpPair)
			b.pipes = limitedPipes(t, test.limits)
			b.start(t)
			exchange(t, b, up, down)
			b.expect(t, Completed, size, size)
			made, used := b.pipes.total()
			if (made > 0) != test.spliced || made > test.limits.count || used > test.limits.bytes {
				t.Errorf("made %d pipes of %d bytes with limits %+v", made, used, test.limits)
			}
		})
	}
}

// A pipe with less than the smallest useful size is no use, and nobody asks for another one at once.
func TestTinyPipe(t *testing.T) {
	noLeaks(t)
	p := limitedPipes(t, pipeLimits{bytes: 64 << 20, count: 100, largest: 1 << 20})
	p.made, p.used = 1, smallestPipe/2
	if q := p.create(smallestPipe / 2); q != nil {
		t.Fatalf("got a pipe of %d bytes", q.size)
	}
	if made, used := p.total(); made != 0 || used != 0 {
		t.Errorf("%d pipes of %d bytes are left", made, used)
	}
	if q := p.take(); q != nil {
		t.Error("got a pipe right after the kernel refused one")
	}
	p.retry = time.Now().Add(-time.Nanosecond)
	q := p.take()
	if q == nil {
		t.Fatal("got no pipe later")
	}
	p.giveBack(q)
}

// The first third of the room is for large pipes, and free ones go out before new ones are made.
func TestPipeSizes(t *testing.T) {
	p := limitedPipes(t, pipeLimits{bytes: 6 << 20, count: 100, largest: 1 << 20})
	var taken []*pipe
	sizes := map[int]int{}
	for q := p.take(); q != nil; q = p.take() {
		taken = append(taken, q)
		sizes[q.size]++
	}
	if sizes[largePipe] != 2 || sizes[mediumPipe] != 16 {
		t.Errorf("got pipes %v, want 2 large and 16 medium ones", sizes)
	}
	if size, err := unix.FcntlInt(uintptr(taken[0].r), unix.F_GETPIPE_SZ, 0); err != nil || size != largePipe {
		t.Errorf("size of a large pipe: got %d (%v)", size, err)
	}
	for _, q := range taken {
		p.giveBack(q)
	}
	if q := p.take(); q.size != largePipe {
		t.Errorf("got a pipe of %d bytes while large ones are free", q.size)
	} else {
		p.giveBack(q)
	}
	if made, _ := p.total(); made != len(taken) {
		t.Errorf("got %d pipes, want still %d", made, len(taken))
	}
}

// trim closes what was free since the last trim, and only that.
func TestTrim(t *testing.T) {
	p := limitedPipes(t, pipeLimits{bytes: 64 << 20, count: 100, largest: 1 << 20})
	a, b, c := p.take(), p.take(), p.take()
	for _, q := range []*pipe{a, b, c} {
		p.giveBack(q)
	}
	want := func(free int) {
		t.Helper()
		if got := p.free(); got != free {
			t.Errorf("free pipes: got %d, want %d", got, free)
		}
	}
	p.trim()
	want(3)
	p.giveBack(p.take())
	p.trim()
	want(1)
	p.trim()
	want(0)
	if p.trimming {
		t.Error("a timer is left though nothing is free")
	}
}

// A pipe with bytes in it that nobody gets any more never goes to another direction.
func TestStopDiscardsFullPipes(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair).start(t)
	go io.Copy(b.client, endless{})
	last, same := int64(0), 0
	eventually(t, "the receiver is full and a pipe is out", func() bool {
		if same++; b.Sent() != last || b.Sent() < 2*bulkAfter {
			last, same = b.Sent(), 0
		}
		made, _ := b.pipes.total()
		return same == 50 && made == 1 && b.pipes.free() == 0
	})
	b.Stop()
	b.wait(t)
	if made, _ := b.pipes.total(); made != 0 {
		t.Errorf("%d pipes are left, want none", made)
	}
}

// A direction that is stopped between two reads gives its pipe back.
func TestEndReleasesPipe(t *testing.T) {
	noLeaks(t)
	pool := ownPipes(t)
	near, _ := tcpPair(t)
	var client, backend endpoint
	client.open(near)
	client.setDeadline(time.Unix(1, 0))
	d := direction{relay: new(Relay), limited: true, src: &client, dst: &backend, bulk: true, pipe: pool.take()}
	if out := d.run(pool); !isTimeout(out.err) || out.at != reading {
		t.Errorf("got %v, want a timeout", out)
	}
	if pool.free() != 1 || d.pipe != nil {
		t.Errorf("free pipes: got %d, want 1", pool.free())
	}
}

// A bulk direction that pauses gives back its pipe, and takes one again when it goes on.
func TestPauseReleasesPipe(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair).start(t)
	for i := range 3 {
		data := random(t, 4<<20)
		go send(t, b.backend, data)
		receive(t, b.client, string(data))
		eventually(t, "the pipe is back", func() bool {
			made, _ := b.pipes.total()
			return made > 0 && b.pipes.free() == made
		})
		if want := int64((i + 1) * len(data)); b.Received() != want {
			t.Errorf("received: got %d, want %d", b.Received(), want)
		}
	}
}

// A socket that doesn't take splice gets copies, of what is in the pipe, too.
func TestSpliceRefused(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	raw, err := b.Backend.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		// splice(2) fails with EINVAL if the target appends.
		_, err = unix.FcntlInt(fd, unix.F_SETFL, unix.O_NONBLOCK|unix.O_APPEND)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.start(t)
	data := random(t, 4<<20)
	exchange(t, b, data, data)
	b.expect(t, Completed, len(data), len(data))
	if !b.up.copyOnly || b.down.copyOnly {
		t.Errorf("copy only: got %v up, %v down, want only up", b.up.copyOnly, b.down.copyOnly)
	}
}

// Many directions over few pipes, at once.
func TestManyRelaysShareThePool(t *testing.T) {
	const relays, size = 20, 2 << 20
	noLeaks(t)
	pool := limitedPipes(t, pipeLimits{bytes: 2 << 20, count: 8, largest: 1 << 20})
	up, down := random(t, size), random(t, size)
	var all sync.WaitGroup
	for range relays {
		b := connect(t, pool, tcpPair, tcpPair).start(t)
		all.Go(func() {
			exchange(t, b, up, down)
			b.expect(t, Completed, size, size)
		})
	}
	all.Wait()
}

func TestLimitsOfThisProcess(t *testing.T) {
	l := readPipeLimits()
	if l.bytes < mediumPipe || l.bytes > privilegedPipes || l.count < 1 || l.largest < smallestPipe {
		t.Errorf("implausible limits: %+v", l)
	}
	if got := readNumber("/nonexistent", 7); got != 7 {
		t.Errorf("a missing file: got %d, want 7", got)
	}
	if got := readNumber("/proc/self/status", 7); got != 7 {
		t.Errorf("a file without a number: got %d, want 7", got)
	}
}
