package relay

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// canPark says that there is a lot.
const canPark = true

// spot is the number of a parked direction in the lot; 0 for one that is not parked.
type spot = int32

// lot is where directions wait that have nothing to do. One goroutine watches all their sockets, by epoll(7), and
// gives a direction a goroutine again when there is something to read. It runs while somebody is parked.
type lot struct {
	// mu guards the fields below.
	mu sync.Mutex
	// parked are the directions by their spots, last is the last spot given.
	parked map[spot]*direction
	last   spot
	// watch is the epoll descriptor; nil while nobody is parked.
	watch *os.File
}

// sharedLot is the lot of the process.
var sharedLot = sync.OnceValue(func() *lot { return &lot{parked: make(map[spot]*direction)} })

// park gives d a spot and reports whether it did. From then on d is another goroutine's.
func (l *lot) park(d *direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch == nil && !l.open() {
		return false
	}
	d.spot = l.free()
	l.parked[d.spot] = d
	if err := l.register(d); err != nil {
		l.remove(d)
		return false
	}
	return true
}

// free returns a spot that nobody has. The caller holds mu.
func (l *lot) free() spot {
	for {
		// After the largest number comes 1 again.
		if l.last++; l.last <= 0 {
			l.last = 1
		}
		if l.parked[l.last] == nil {
			return l.last
		}
	}
}

// leave takes d out of its spot and reports whether it had one.
func (l *lot) leave(d *direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.spot == 0 {
		return false
	}
	l.remove(d)
	return true
}

// at takes out whoever is at a spot; nil if nobody is.
func (l *lot) at(s spot) *direction {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.parked[s]
	if d != nil {
		l.remove(d)
	}
	return d
}

// remove takes d out. The last one to leave ends the goroutine. The caller holds mu.
func (l *lot) remove(d *direction) {
	delete(l.parked, d.spot)
	d.spot = 0
	if len(l.parked) == 0 {
		_ = l.watch.Close()
		l.watch = nil
	}
}

// register has the socket that d reads from watched for one event. A socket that is closed leaves by itself. The caller
// holds mu.
func (l *lot) register(d *direction) error {
	watch, err := l.watch.SyscallConn()
	if err != nil {
		return err
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: d.spot}
	var socketErr, added error
	err = watch.Control(func(epoll uintptr) {
		socketErr = d.src.raw.Control(func(fd uintptr) { added = watchSocket(int(epoll), int(fd), &event) })
	})
	return errors.Join(err, socketErr, added)
}

// watchSocket adds fd to epoll, or arms it again if it was there before.
func watchSocket(epoll, fd int, event *unix.EpollEvent) error {
	err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, event)
	if err == unix.EEXIST {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_MOD, fd, event)
	}
	return err
}

// open makes the epoll descriptor and starts the goroutine. The caller holds mu.
func (l *lot) open() bool {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	// Go's own poller watches it in turn, if it does not block.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return false
	}
	l.watch = os.NewFile(uintptr(fd), "epoll")
	go l.run(l.watch)
	return true
}

// run is the lot's goroutine. It ends when watch is closed.
func (l *lot) run(watch *os.File) {
	raw, err := watch.SyscallConn()
	if err != nil {
		return
	}
	var events [64]unix.EpollEvent
	n := 0
	ready := func(fd uintptr) bool {
		n, _ = unix.EpollWait(int(fd), events[:], 0)
		return n > 0
	}
	for raw.Read(ready) == nil {
		for _, event := range events[:n] {
			if d := l.at(event.Fd); d != nil {
				go d.relay.resume(d)
			}
		}
	}
}
