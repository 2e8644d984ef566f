// Package load puts work on a TLS passthrough proxy and measures what the proxy pays for it: a backend, clients that open,
// fill, drain or hold connections, and the CPU time and memory of the proxy's process meanwhile. It is meant for loopback.
//
// Nothing here speaks TLS beyond the first message. A client sends a real ClientHello and then, without waiting, a command
// of 9 bytes: a letter and a big-endian 64-bit number N.
//
//	D N: the backend sends N bytes and closes
//	U N: the backend reads N bytes and sends 1 byte
//	T N: the backend sends N bytes and waits for the client to close
//	E 0: the backend echoes until the client closes
package load

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/proc"
	"github.com/caddy-sluice/sluice/bench/internal/stats"
)

// Target is a proxy under test.
type Target struct {
	// Name is what reports call it.
	Name string
	// Addr is where it listens, host:port.
	Addr string
	// ServerName is the name in the ClientHello.
	ServerName string
	// PID is its process, whose descendants count too. 0: its CPU time is not measured.
	PID int
}

// Kind is what the clients do.
type Kind string

// The kinds of work.
const (
	// Rate opens a connection, gets a short reply and closes, over and over.
	Rate Kind = "rate"
	// Down moves bytes from the backend to the clients.
	Down Kind = "down"
	// Up moves bytes from the clients to the backend.
	Up Kind = "up"
	// PingPong sends messages to and fro on long-lived connections.
	PingPong Kind = "pp"
)

// Options say how much work to do.
type Options struct {
	Kind Kind
	// Conns is the number of connections at a time.
	Conns int
	// Count is the number of connections (Rate) or messages (PingPong), over all workers.
	Count int64
	// Bytes is the number of bytes to move (Down, Up), over all connections.
	Bytes int64
	// Reply is the size of the backend's answer in Rate.
	Reply int64
	// Message is the size of a message in PingPong.
	Message int
	// Limit ends the work when it takes longer.
	Limit time.Duration
	// Hello shapes the ClientHello.
	Hello HelloOptions
}

// Result is what one run did and what it cost.
type Result struct {
	// Units counts the work done: bytes (Down, Up), connections (Rate) or messages (PingPong).
	Units int64
	// Wall is how long it took, CPU what the proxy used.
	Wall time.Duration
	CPU  proc.CPU
	// P50 and P99 are percentiles of the time of one connection or message.
	P50, P99 time.Duration
	// Failed counts what went wrong; Err is the first such error.
	Failed int64
	Err    error
}

// closeGrace is how long a proxy gets, after the last client is done, to close its side: that work belongs to the run.
const closeGrace = 50 * time.Millisecond

// dialTimeout bounds the dial and, in Rate, the whole life of a connection.
const dialTimeout = 10 * time.Second

// chunk is the size of the reads and writes of clients and backend: large, so that they are cheap beside the proxy's.
const chunk = 256 << 10

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// Run does the work once against target. It returns an error only if it could not measure; failed connections are in the
// result.
func Run(ctx context.Context, target Target, o Options) (Result, error) {
	work, err := workOf(o)
	if err != nil {
		return Result{}, err
	}
	var pids []int
	if target.PID > 0 {
		pids = proc.Tree(target.PID)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	r := &run{Options: o, target: target, hello: ClientHello(target.ServerName, o.Hello)}
	before, err := proc.ReadCPU(pids)
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	r.start(ctx, work)
	wall := time.Since(start)
	time.Sleep(closeGrace)
	after, err := proc.ReadCPU(pids)
	if err != nil {
		return Result{}, err
	}
	result := r.result()
	result.Wall, result.CPU = wall, after.Sub(before)
	return result, nil
}

func workOf(o Options) (func(*run, context.Context) error, error) {
	if o.Conns < 1 {
		return nil, fmt.Errorf("%d connections, want at least 1", o.Conns)
	}
	switch o.Kind {
	case Rate:
		return (*run).openAndClose, nil
	case Down:
		return (*run).download, nil
	case Up:
		return (*run).upload, nil
	case PingPong:
		return (*run).pingPong, nil
	}
	return nil, fmt.Errorf("unknown kind of work %q, want rate, down, up or pp", o.Kind)
}

// run is one run in progress.
type run struct {
	Options
	target Target
	hello  []byte

	// taken counts what the workers have begun, units what they have done.
	taken, units atomic.Int64

	// mu guards what follows.
	mu        sync.Mutex
	latencies []time.Duration
	failed    int64
	err       error
}

// start runs one worker for each connection and waits for them.
func (r *run) start(ctx context.Context, work func(*run, context.Context) error) {
	var workers sync.WaitGroup
	for range r.Conns {
		workers.Go(func() {
			if err := work(r, ctx); err != nil {
				r.fail(err)
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil && (r.Kind == Rate || r.Kind == PingPong) && r.taken.Load() < r.Count {
		r.fail(fmt.Errorf("%d of %d done: %w", r.units.Load(), r.Count, err))
	}
}

// take reports whether there is one more unit of work to begin.
func (r *run) take(ctx context.Context) bool {
	return ctx.Err() == nil && r.taken.Add(1) <= r.Count
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	if r.err == nil {
		r.err = err
	}
}

func (r *run) record(latencies []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latencies = append(r.latencies, latencies...)
}

func (r *run) result() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.latencies)
	return Result{
		Units: r.units.Load(), Failed: r.failed, Err: r.err,
		P50: stats.Percentile(r.latencies, 50), P99: stats.Percentile(r.latencies, 99),
	}
}

// dial connects to the target and sends the ClientHello and a command in one write. The connection ends with ctx.
func (r *run) dial(ctx context.Context, cmd byte, n int64) (*conn, error) {
	return dial(ctx, r.target.Addr, command(r.hello, cmd, n))
}

// conn is a client's connection that closes when its context ends, so that no read or write outlasts a run.
type conn struct {
	net.Conn
	unwatch func() bool
}

func dial(ctx context.Context, addr string, first []byte) (*conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: -1}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{raw, context.AfterFunc(ctx, func() { raw.Close() })}
	if _, err := raw.Write(first); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connection.
func (c *conn) Close() error {
	c.unwatch()
	return c.Conn.Close()
}
