package sluiceapp

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/pressure"
	"github.com/caddy-sluice/sluice/modules/session"
)

// Admission are the limits of the process. They hold for the connections of all layer-4 routes with a module of ours, and
// for the HTTP requests that pass a handler `admission`.
type Admission struct {
	// How many connections there may be. Those that were handed over to Caddy's HTTP app count until they are closed.
	// Range: 1 to 10000000. Default: no limit. No placeholders.
	MaxConnections int64 `json:"max_connections,omitempty"`

	// How many HTTP requests there may be that have passed a handler `admission` and are not over. An upgraded connection
	// is a request until it is closed. Range: 1 to 10000000. Default: no limit. No placeholders.
	MaxRequests int64 `json:"max_requests,omitempty"`

	// How much memory the process may have in use before new connections and requests are refused: a size such as `2GiB`, or a share
	// such as `80%` of what the control group or the machine has. It is read at most once a second, from Linux's
	// resident set size. Default: no limit. No placeholders.
	MemoryLimit string `json:"memory_limit,omitempty"`

	// How many open files to keep free: a number, or a share of the limit such as `5%`, which is at least 64. `0` turns
	// it off. Range of a share: up to `50%`. Default: `5%`. No placeholders.
	OpenFilesReserve string `json:"open_files_reserve,omitempty"`

	// What happens to new connections and requests while memory or open files can't be read, for more than 10 seconds: `closed`
	// refuses them, `open` lets them in. Default: `closed`. No placeholders.
	FailureMode string `json:"failure_mode,omitempty"`
}

// MaxConnections is the highest limit for connections and for requests that can be set. A typing error should show; that
// many files no system opens.
const MaxConnections = 10_000_000

const (
	// defaultReserve keeps certificates, name lookups and the admin endpoint alive when connections use up the files.
	defaultReserve = "5%"
	// minMemoryLimit is less than Caddy needs for itself: such a limit is a unit or a percent sign that was left out.
	minMemoryLimit = 16 << 20
	failOpen       = "open"
	failClosed     = "closed"
)

// gates are the limits of the process, ready to be asked.
type gates struct {
	maxConnections int64
	maxRequests    int64
	// memory is nil without a limit, files when the gate is off.
	memory      *pressure.Memory
	memoryLimit uint64
	files       *pressure.Files
	filesLimit  uint64
	failOpen    bool
	// unreadable is set once a warning about it has been written.
	unreadable atomic.Bool
}

// provision reads the settings. cfg may be nil.
func (g *gates) provision(cfg *Admission) error {
	if cfg == nil {
		cfg = new(Admission)
	}
	if cfg.MaxConnections < 0 || cfg.MaxConnections > MaxConnections {
		return fmt.Errorf("max_connections: %d is out of range, 1 to %d", cfg.MaxConnections, MaxConnections)
	}
	if cfg.MaxRequests < 0 || cfg.MaxRequests > MaxConnections {
		return fmt.Errorf("max_requests: %d is out of range, 1 to %d", cfg.MaxRequests, MaxConnections)
	}
	g.maxConnections, g.maxRequests = cfg.MaxConnections, cfg.MaxRequests
	switch cfg.FailureMode {
	case "", failClosed:
	case failOpen:
		g.failOpen = true
	default:
		return fmt.Errorf("failure_mode: %q is not known; must be one of %s, %s", cfg.FailureMode, failOpen, failClosed)
	}
	if err := g.provisionMemory(cfg.MemoryLimit); err != nil {
		return fmt.Errorf("memory_limit: %w", err)
	}
	if err := g.provisionFiles(cfg.OpenFilesReserve); err != nil {
		return fmt.Errorf("open_files_reserve: %w", err)
	}
	return nil
}

// provisionMemory makes the gate for memory, if there is a limit.
func (g *gates) provisionMemory(limit string) error {
	if limit == "" {
		return nil
	}
	amount, err := pressure.ParseSize(limit)
	if err != nil {
		return err
	}
	if !amount.IsShare() && amount.Of(0) < minMemoryLimit {
		return fmt.Errorf("%q is out of range, 16MiB or more, or a share such as 80%%", limit)
	}
	if _, err := pressure.ResidentMemory(); err != nil {
		return fmt.Errorf("not supported on this system: %w", err)
	}
	var total uint64
	if amount.IsShare() {
		if total, err = pressure.TotalMemory(); err != nil {
			return fmt.Errorf("%q: %w", limit, err)
		}
	}
	g.memoryLimit = amount.Of(total)
	g.memory = pressure.NewMemory(pressure.ResidentMemory)
	return nil
}

// provisionFiles makes the gate for open files. Where they can't be counted there is none, unless it was asked for.
func (g *gates) provisionFiles(reserve string) error {
	configured := reserve != ""
	if !configured {
		reserve = defaultReserve
	}
	amount, err := pressure.ParseCount(reserve)
	if err != nil {
		return err
	}
	limit, err := pressure.MaxFiles()
	if err == nil {
		_, err = pressure.OpenFiles()
	}
	free := amount.Reserve(limit)
	switch {
	case configured && !amount.IsShare() && free == 0:
		return nil
	case err != nil && configured:
		return fmt.Errorf("not supported on this system: %w", err)
	case err != nil:
		return nil
	case free >= limit:
		return fmt.Errorf("%d is out of range, 0 to %d: the process may open %d files", free, limit-1, limit)
	}
	g.filesLimit = limit - free
	g.files = pressure.NewFiles(pressure.OpenFiles)
	return nil
}

// Admit lets a connection pass the gates of the process, in this order: memory, open files, connections. It reports
// false if one refuses: then the session has ended, the refusal is counted, and the connection is to be closed without
// a byte. What it takes is given back at the session's end. Each session is asked for once.
func (a *App) Admit(sess *session.Session) bool {
	if sess.Admitted {
		return true
	}
	if sess.CloseReason() != session.Open {
		return false
	}
	if gate := a.shut(time.Now(), (*pressure.Files).Take); gate != session.Open {
		a.Refuse(sess, gate)
		return false
	}
	if !a.state.process.TryAcquire(1, a.gates.maxConnections) {
		a.Refuse(sess, session.AdmissionProcess)
		return false
	}
	sess.OnEnd(a.giveProcess)
	sess.Admitted = true
	return true
}

// askFiles asks whether files may be opened: Take for a connection, Ask for what needs none yet.
type askFiles func(f *pressure.Files, now time.Time, limit uint64) pressure.Answer

// shut returns the gate that the system's state keeps shut; Open if there is none.
func (a *App) shut(now time.Time, ask askFiles) session.CloseReason {
	g := &a.gates
	if g.memory != nil && !a.room(session.AdmissionMemory, g.memory.Ask(now, g.memoryLimit)) {
		return session.AdmissionMemory
	}
	if g.files != nil && !a.room(session.AdmissionOpenFiles, ask(g.files, now, g.filesLimit)) {
		return session.AdmissionOpenFiles
	}
	return session.Open
}

// room says what an answer means for the connection.
func (a *App) room(gate session.CloseReason, answer pressure.Answer) bool {
	if answer != pressure.Unknown {
		return answer == pressure.Room
	}
	if a.gates.unreadable.CompareAndSwap(false, true) {
		a.logger.Warn("reading what the process uses has failed", zap.String("gate", gateName(gate)),
			zap.Bool("refusing", !a.gates.failOpen))
	}
	return a.gates.failOpen
}

// Refuse ends a session that a gate did not let pass, and counts it for that gate.
func (a *App) Refuse(sess *session.Session, gate session.CloseReason) {
	sess.End(gate)
	if sess.CloseReason() != gate {
		return
	}
	i := gate - firstGate
	metrics.rejected[i].Inc()
	a.sheds[i].Refused(a.logger, zap.Stringer("listener", sess.Listener))
	if entry := a.logger.Check(zap.DebugLevel, "connection not admitted"); entry != nil {
		entry.Write(zap.String("remote", sess.Client.String()), zap.String("listener", sess.Listener.String()),
			zap.String("gate", gateName(gate)))
	}
}
