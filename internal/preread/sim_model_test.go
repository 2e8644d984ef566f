package preread

import (
	"slices"
	"strings"
	"time"

	"github.com/caddy-sluice/sluice/internal/snitable"
)

// simConn is a connection that the simulation made up, and what must become of it.
type simConn struct {
	kind string
	cfg  Config
	// wire is all that the client sends; the first header bytes of it are a valid PROXY header that is asked for.
	wire   []byte
	header int
	// at is the window length at which the bytes decide, and want the verdict then. 0: they never do.
	at   int
	want Verdict
	// name is what ServerName must say, when the hello was completed.
	name string
	// records is the number of records of the hello.
	records int
	// chaos means that a byte was changed, so that nobody knows what to expect.
	chaos bool
}

// shadow is the core's contract in terms of what the simulation knows about a connection. It reads no bytes.
type shadow struct {
	conn    *simConn
	armed   bool
	verdict Verdict
}

// bytes is what Core.Bytes must say to a window of n bytes.
func (s *shadow) bytes(n int, now time.Time) Verdict {
	switch {
	case s.verdict.Kind != NeedMore:
		return s.verdict
	case !s.armed:
		s.armed, s.verdict.Deadline = true, now.Add(s.conn.cfg.Timeout)
	}
	if now.Compare(s.verdict.Deadline) >= 0 {
		return s.end(rejected(Fragmented))
	}
	if n >= s.conn.header {
		s.verdict.Offset = s.conn.header
	}
	switch {
	case s.conn.at > 0 && n >= s.conn.at:
		return s.end(s.conn.want)
	case n >= s.conn.cfg.MaxBytes:
		return s.end(rejected(TooLarge))
	}
	return s.verdict
}

// end latches a verdict, with the offset known by then.
func (s *shadow) end(v Verdict) Verdict {
	if s.verdict.Kind == NeedMore {
		v.Offset = s.verdict.Offset
		s.verdict = v
	}
	return s.verdict
}

// shadowRoute is the verdict on a hello, found by reading all of the routes; name is normalised, or empty.
func shadowRoute(routes []snitable.Route, name string, offered []string, ech bool) Verdict {
	switch {
	case name == "" && ech:
		return rejected(ECHOuterAbsent)
	case name == "":
		return rejected(NoSNI)
	}
	pattern := ""
	for _, r := range routes {
		for _, p := range r.Names {
			if shadowCovers(p, name) && shadowRank(p) > shadowRank(pattern) {
				pattern = p
			}
		}
	}
	if pattern == "" {
		return rejected(SNIUnmatched)
	}
	for _, protocol := range append(slices.Clone(offered), "") {
		for i, r := range routes {
			takes := slices.Contains(r.ALPN, protocol) || protocol == "" && len(r.ALPN) == 0
			if takes && slices.Contains(r.Names, pattern) {
				return routed(i, pattern, protocol)
			}
		}
	}
	return Verdict{Kind: Reject, Reason: ALPNUnmatched, Match: snitable.Match{Pattern: pattern}}
}

func shadowCovers(pattern, name string) bool {
	label, parent, _ := strings.Cut(name, ".")
	switch {
	case strings.HasPrefix(pattern, "*."):
		return label != "" && pattern[2:] == parent
	case strings.HasPrefix(pattern, "**."):
		return strings.HasSuffix(name, pattern[2:])
	case strings.HasPrefix(pattern, "."):
		return strings.HasSuffix("."+name, pattern)
	}
	return pattern == name
}

// shadowRank orders the patterns that cover one name: exact first, then the longest suffix, then the narrowest form.
func shadowRank(pattern string) int {
	if pattern == "" {
		return -1
	}
	for rank, prefix := range []string{".", "**.", "*."} {
		if base, ok := strings.CutPrefix(pattern, prefix); ok {
			return 4*len(base) + rank
		}
	}
	return 4 * maxName * maxName
}
