package l4sni

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

const (
	// windowSize is the first size of a connection's window. Hellos without a post-quantum key share fit.
	windowSize = 1 << 10
	// windowGrowth is by how much a full window grows. With 3 the bytes copied stay below half of those kept, and a
	// hello with a post-quantum share, of 1.5 to 2 KiB, gets 3 KiB, a size of its own for the memory allocator. With
	// 2 KiB it would stand between caddy-l4's buffers of that size, which stay, and leave holes when it goes.
	windowGrowth = 3
)

// errNoMemory is what intake returns when the memory for undecided connections is used up.
var errNoMemory = errors.New("no memory for another undecided connection")

// decider makes a verdict of the first bytes of a connection. It must reject an undecided window of the intake's limit.
type decider interface {
	bytes(window []byte) preread.Verdict
	Timeout() preread.Verdict
	FrontClosed() preread.Verdict
}

// intake reads the first bytes of one connection into a window that grows.
type intake struct {
	cx  *layer4.Connection
	app *sluiceapp.App
	// limit is the most that may be read before there is a verdict.
	limit  int
	window []byte
	// held is how much of the memory for undecided connections the window has.
	held int
	// refused is set when there was not enough.
	refused bool
}

// feed reads until the core has decided. The read deadline is absolute; it is gone when feed returns, and so is the
// window's share of the memory for undecided connections.
func (in *intake) feed(core decider, deadline time.Time) (preread.Verdict, error) {
	defer in.giveBack()
	var verdict preread.Verdict
	if err := in.pending(); err != nil {
		return verdict, in.refusal(err)
	}
	if len(in.window) > 0 {
		if verdict = core.bytes(in.window); verdict.Kind != preread.NeedMore {
			return verdict, nil
		}
	}
	if err := in.cx.SetReadDeadline(deadline); err != nil {
		return core.FrontClosed(), nil
	}
	for verdict.Kind == preread.NeedMore {
		if err := in.grow(); err != nil {
			return verdict, in.refusal(err)
		}
		verdict = in.step(core)
	}
	// The error of a connection that is gone shows at the next read.
	_ = in.cx.SetReadDeadline(time.Time{})
	return verdict, nil
}

// step reads once.
func (in *intake) step(core decider) (verdict preread.Verdict) {
	used := len(in.window)
	n, err := in.cx.Read(in.window[used:cap(in.window)])
	in.window = in.window[:used+n]
	if n > 0 {
		verdict = core.bytes(in.window)
	}
	if verdict.Kind == preread.NeedMore && err != nil {
		return ended(core, err)
	}
	return verdict
}

// ended is the verdict about a connection on which nothing more will come in time.
func ended(core decider, err error) preread.Verdict {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return core.Timeout()
	}
	return core.FrontClosed()
}

// pending takes the bytes that matchers in front of us have read already.
func (in *intake) pending() error {
	n := len(in.cx.MatchingBytes())
	size := max(n, min(windowSize, in.limit))
	if !in.take(size) {
		return errNoMemory
	}
	in.window = make([]byte, n, size)
	_, err := io.ReadFull(in.cx, in.window)
	return err
}

// grow makes room in a full window, up to the limit. The core rejects an undecided window of that length, so there is
// always room to make.
func (in *intake) grow() error {
	if len(in.window) < cap(in.window) {
		return nil
	}
	size := min(windowGrowth*cap(in.window), in.limit)
	if !in.take(size - cap(in.window)) {
		return errNoMemory
	}
	bigger := make([]byte, len(in.window), size)
	copy(bigger, in.window)
	in.window = bigger
	return nil
}

// take takes n bytes of the memory for undecided connections, if they are there.
func (in *intake) take(n int) bool {
	if !in.app.TakePreread(n) {
		return false
	}
	in.held += n
	return true
}

// giveBack gives back what take took.
func (in *intake) giveBack() {
	in.app.GivePreread(in.held)
	in.held = 0
}

// refusal notes that there was no memory, which is no error of the handler.
func (in *intake) refusal(err error) error {
	if errors.Is(err, errNoMemory) {
		in.refused = true
		return nil
	}
	return err
}

// over says whether the connection is not to go on after feed: there was no memory for it, or it was stopped from
// outside, which looks like a client that left. One that comes and goes without a byte, as health checks do, ends here
// too, without being counted; what is to be done about it is the caller's.
func (in *intake) over(sess *session.Session, verdict preread.Verdict) bool {
	if in.refused {
		in.app.Refuse(sess, session.AdmissionPrereadMemory)
	}
	if sess.CloseReason() != session.Open {
		return true
	}
	if len(in.window) == 0 && verdict.Reason == preread.FrontClosed {
		sess.Silent = true
		sess.End(session.ForPreread(preread.FrontClosed))
	}
	return false
}
