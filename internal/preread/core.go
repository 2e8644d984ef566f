// Package preread decides where a connection goes from its first bytes. It knows no socket and no clock: bytes,
// timeouts and the end of the stream come in as calls with the time, one verdict comes out.
//
// The caller keeps the bytes in one growing window, which the core never changes and never copies, and gives the
// whole window to Bytes after each read. No byte is looked at twice, except those of a hello that spans records, when
// it is complete. The caller must not read past Config.MaxBytes while the verdict is NeedMore: the core rejects a
// window that is incomplete at that length, and routes a complete one whatever its length.
package preread

import (
	"time"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/proxyheader"
	"github.com/caddy-sluice/sluice/internal/snitable"
)

// Limits of Config.MaxBytes. The core takes what it is given; whoever reads a configuration refuses the rest.
const (
	// DefaultMaxBytes is the first power of two that holds a hello in one record of the longest legal length
	// (5 + 16384 bytes, RFC 8446 §5.1) behind a PROXY header.
	DefaultMaxBytes = 32 << 10
	// MinMaxBytes is the header of one record. With less, no read could tell a record from rubbish.
	MinMaxBytes = 5
	// MaxMaxBytes holds whatever can be read as a hello. With every length field at its maximum, a hello is
	// 131 624 bytes long; cut into records of one byte each, 789 744; the longest PROXY header adds 65 551.
	MaxMaxBytes = 1 << 20
)

// Limits of Config.Timeout.
const (
	// DefaultTimeout leaves room for two lost segments: TCP repeats after 1 s, then after 2 s (RFC 6298 §2).
	DefaultTimeout = 5 * time.Second
	// MinTimeout is longer than a round trip between neighbours. With less, honest clients would be cut off.
	MinTimeout = 10 * time.Millisecond
	// MaxTimeout keeps a client that says nothing from holding its window for longer than people wait.
	MaxTimeout = 5 * time.Minute
)

// Config is what a decision depends on besides the bytes. It is read at each call and may be shared.
type Config struct {
	// Table routes the hello: the one given to the call that completes it. When it is nil, a complete hello is
	// Routed without a match, whatever its name.
	Table *snitable.Table
	// Proxy demands a PROXY protocol header before the hello. It must be the same in all calls for a connection.
	Proxy bool
	// MaxBytes is the window length at which an incomplete window is rejected.
	MaxBytes int
	// Timeout is how long after the first call of Bytes the deadline lies.
	Timeout time.Duration
}

// Kind is the kind of a verdict.
type Kind uint8

const (
	// NeedMore asks for more bytes. It is the only verdict that is not final.
	NeedMore Kind = iota
	// Routed means that the hello is complete and has a route (or that there is no table to ask).
	Routed
	// Reject means that the connection has no route, for Reason.
	Reject
)

// Verdict is the core's answer to an input.
type Verdict struct {
	Kind Kind
	// Deadline is the instant at which an undecided window becomes Fragmented. Set with NeedMore.
	Deadline time.Time
	// Reason says why, with Reject.
	Reason Reason
	// Match is the route, with Routed and a table. Its Pattern is also set with ALPNUnmatched.
	Match snitable.Match
	// Offset is where the TLS bytes begin in the window: the length of the PROXY header once that is complete,
	// also with Reject; else 0.
	Offset int
}

// Core decides about one connection. The zero value is ready. It is not safe for concurrent use.
//
// The first verdict other than NeedMore is the last one: every later input of any kind gets the same answer.
type Core struct {
	verdict Verdict
	armed   bool
	name    string
	proxy   proxyheader.Parser
	hello   clienthello.Parser
}

// Bytes gives the core the whole window from wire offset 0. The first call sets the deadline, even with an empty
// window. From the deadline on the window is Fragmented, even when it holds a complete hello by now.
func (c *Core) Bytes(cfg *Config, window []byte, now time.Time) Verdict {
	if c.verdict.Kind != NeedMore {
		return c.verdict
	}
	if !c.armed {
		c.armed, c.verdict.Deadline = true, now.Add(cfg.Timeout)
	}
	if !now.Before(c.verdict.Deadline) {
		return c.reject(Fragmented)
	}
	if cfg.Proxy {
		switch c.proxy.Parse(window) {
		case proxyheader.NeedMore:
			return c.needMore(cfg, window)
		case proxyheader.Invalid:
			return c.reject(ProxyHeaderInvalid)
		}
		c.verdict.Offset = c.proxy.Header().Len
	}
	switch c.hello.Parse(window[c.verdict.Offset:]) {
	case clienthello.NotTLS:
		return c.reject(NotTLS)
	case clienthello.MalformedRecord:
		return c.reject(MalformedRecord)
	case clienthello.MalformedHandshake:
		return c.reject(MalformedHandshake)
	case clienthello.Complete:
		return c.resolve(cfg.Table)
	}
	return c.needMore(cfg, window)
}

// Timeout tells the core that the deadline has passed.
func (c *Core) Timeout() Verdict { return c.reject(Fragmented) }

// FrontClosed tells the core that the client is gone.
func (c *Core) FrontClosed() Verdict { return c.reject(FrontClosed) }

// Hello returns the hello once it is complete, also when it was rejected for its name or protocols; else nil. Its
// byte slices are views, see clienthello.Hello.
func (c *Core) Hello() *clienthello.Hello { return c.hello.Hello() }

// ServerName returns the normalised name of the hello; empty when it has none that can be used.
func (c *Core) ServerName() string { return c.name }

// ProxyHeader returns the PROXY header once it is complete, else nil.
func (c *Core) ProxyHeader() *proxyheader.Header { return c.proxy.Header() }

// needMore answers to an incomplete window. It is the only place where the limit counts: what is complete or wrong is
// so at any length.
func (c *Core) needMore(cfg *Config, window []byte) Verdict {
	if len(window) >= cfg.MaxBytes {
		return c.reject(TooLarge)
	}
	return c.verdict
}

func (c *Core) resolve(t *snitable.Table) Verdict {
	name, match, reason := Resolve(t, c.hello.Hello())
	c.name = name
	if reason != None {
		return c.decide(Verdict{Kind: Reject, Reason: reason, Match: match})
	}
	return c.decide(Verdict{Kind: Routed, Match: match})
}

func (c *Core) reject(r Reason) Verdict { return c.decide(Verdict{Kind: Reject, Reason: r}) }

// decide latches v, unless there is a final verdict already.
func (c *Core) decide(v Verdict) Verdict {
	if c.verdict.Kind == NeedMore {
		v.Offset = c.verdict.Offset
		c.verdict = v
	}
	return c.verdict
}
