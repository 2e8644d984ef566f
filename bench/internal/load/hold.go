package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/proc"
)

// openers is how many connections Hold opens at a time: few enough for any listen backlog.
const openers = 32

// Held are connections that do nothing but exist.
type Held struct {
	// mu guards conns and err.
	mu    sync.Mutex
	conns []net.Conn
	err   error
}

// Hold opens count connections through target. Each gets reply bytes from the backend, and is idle from then on. It fails
// unless every connection came up, and has then closed the others.
func Hold(ctx context.Context, target Target, count int, reply int64) (*Held, error) {
	first := command(ClientHello(target.ServerName, HelloOptions{ALPN: DefaultALPN}), cmdTiny, reply)
	held := &Held{}
	var workers sync.WaitGroup
	for worker := range min(openers, count) {
		workers.Go(func() {
			for i := worker; i < count && held.open(ctx, target.Addr, first, reply); i += openers {
			}
		})
	}
	workers.Wait()
	if held.err != nil {
		return nil, errors.Join(fmt.Errorf("holding %d connections through %s: %w", count, target.Name, held.err), held.Close())
	}
	return held, nil
}

// open adds a connection. It reports whether to go on.
func (h *Held) open(ctx context.Context, addr string, first []byte, reply int64) bool {
	c, err := openIdle(ctx, addr, first, reply)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.err = err
		return false
	}
	h.conns = append(h.conns, c)
	return h.err == nil
}

func openIdle(ctx context.Context, addr string, first []byte, reply int64) (net.Conn, error) {
	c, err := dial(ctx, addr, first)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if _, err := discard(c, reply); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes the connections.
func (h *Held) Close() error {
	var errs []error
	for _, c := range h.conns {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// IdleOptions say how to measure idle connections.
type IdleOptions struct {
	// Conns is how many are held, Warm how many are opened and closed beforehand, so that what a process allocates once is
	// not charged to the connections.
	Conns, Warm int
	// Reply is how many bytes the backend sends on each before it goes idle.
	Reply int64
	// Settle returns when the process is ready to be looked at. It runs before each reading.
	Settle func(context.Context) error
}

// IdleResult is what one idle connection costs.
type IdleResult struct {
	// Base is the process before the connections.
	Base proc.Memory
	// RSS, PSS, Slab (of the kernel, both peers' sockets included) and Descriptors are per connection; the first three in
	// bytes.
	RSS, PSS, Slab, Descriptors float64
}

// MeasureIdle holds idle connections through target and returns how much its process grew.
func MeasureIdle(ctx context.Context, target Target, o IdleOptions) (IdleResult, error) {
	warm, err := Hold(ctx, target, o.Warm, o.Reply)
	if err != nil {
		return IdleResult{}, err
	}
	if err := errors.Join(warm.Close(), o.Settle(ctx)); err != nil {
		return IdleResult{}, err
	}
	before, slabBefore, err := readIdle(target)
	if err != nil {
		return IdleResult{}, err
	}
	held, err := Hold(ctx, target, o.Conns, o.Reply)
	if err != nil {
		return IdleResult{}, err
	}
	defer held.Close()
	if err := o.Settle(ctx); err != nil {
		return IdleResult{}, err
	}
	after, slabAfter, err := readIdle(target)
	if err != nil {
		return IdleResult{}, err
	}
	per := func(before, after int64) float64 { return float64(after-before) / float64(o.Conns) }
	return IdleResult{
		Base: before, RSS: per(before.RSS, after.RSS), PSS: per(before.PSS, after.PSS),
		Slab: per(slabBefore, slabAfter), Descriptors: per(before.Descriptors, after.Descriptors),
	}, nil
}

func readIdle(target Target) (proc.Memory, int64, error) {
	memory, err := proc.ReadMemory(proc.Tree(target.PID))
	if err != nil {
		return proc.Memory{}, 0, err
	}
	slab, err := proc.Slab()
	return memory, slab, err
}
