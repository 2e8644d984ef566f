package l4sni

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/snitable"
)

func init() {
	caddy.RegisterModule(&Matcher{})
}

// Matcher is the matcher `preread`: TLS connections whose ClientHello names one of some servers, offers one of some
// protocols, or carries an encrypted hello. All that is given must hold. Empty, it matches every complete
// ClientHello. It works with any handler. The hello is parsed once, however many such matchers a config has.
//
// The bytes are gathered by caddy-l4's matching: at most 16 KiB, within its `matching_timeout`, with its rules for
// several routes on one server. For routing by name alone, `sni_router` has neither limit.
type Matcher struct {
	// Server names, with the patterns of `sni_router`: `a.example.com`, `*.example.com`, `**.example.com`,
	// `.example.com`. Default: any, and none. Placeholders are replaced at load.
	Names []string `json:"names,omitempty"`

	// Application protocols, of which the client must offer one. Compared byte for byte. Default: any, and none.
	ALPN []string `json:"alpn,omitempty"`

	// Whether the hello must carry an encrypted hello (ECH), its GREASE included, or must not. Default: either.
	ECH *bool `json:"ech,omitempty"`

	table *snitable.Table
}

// CaddyModule returns the Caddy module information.
func (*Matcher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.matchers.preread",
		New: func() caddy.Module { return new(Matcher) },
	}
}

// Provision compiles the names.
func (m *Matcher) Provision(caddy.Context) error {
	if len(m.Names) == 0 {
		return checkALPN(m.ALPN)
	}
	router := Router{Routes: []*Route{{Names: m.Names, ALPN: m.ALPN}}}
	var err error
	m.table, err = router.Table()
	return unrouted(err)
}

// unrouted takes the route out of an error of the table: a matcher has none.
func unrouted(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "routes[0]."))
}

// checkALPN lets the table judge protocols that stand without names.
func checkALPN(protocols []string) error {
	_, err := snitable.New([]snitable.Route{{Names: []string{"localhost"}, ALPN: protocols}})
	return unrouted(err)
}

// Match asks for more bytes as long as they are the beginning of a hello.
func (m *Matcher) Match(cx *layer4.Connection) (bool, error) {
	window := cx.MatchingBytes()
	seen := seenBy(cx, window)
	switch seen.parser.Parse(window) {
	case clienthello.Complete:
		return m.matches(seen.parser.Hello()), nil
	case clienthello.NeedMore:
		if len(window) < layer4.MaxMatchingBytes {
			return false, layer4.ErrConsumedAllPrefetchedBytes
		}
	}
	return false, nil
}

// matches says whether a hello is what the matcher asks for.
func (m *Matcher) matches(hello *clienthello.Hello) bool {
	if m.ECH != nil && *m.ECH != hello.ECH {
		return false
	}
	if m.table != nil {
		_, _, reason := preread.Resolve(m.table, hello)
		return reason == preread.None
	}
	return len(m.ALPN) == 0 || offers(hello.ALPN, m.ALPN)
}

// offers says whether one of the protocols is in the client's list.
func offers(list clienthello.Protocols, protocols []string) bool {
	for name := range list.All() {
		if slices.Contains(protocols, string(name)) {
			return true
		}
	}
	return false
}

// seenVar is the key under which the matchers of a connection share what they have parsed.
const seenVar = "sluice.seen"

// seen is a hello being parsed, and how to tell that it is the hello of these bytes: a handler between two rounds of
// matching may have consumed bytes, or put another connection in place.
type seen struct {
	parser clienthello.Parser
	conn   net.Conn
	head   []byte
	size   int
}

// headSize is enough of a hello to tell it from another: record and message header, version and the random.
const headSize = 5 + 4 + 2 + 32

// seenBy returns the state that belongs to the connection and its window, a new one if there is none.
func seenBy(cx *layer4.Connection, window []byte) *seen {
	s, ok := cx.GetVar(seenVar).(*seen)
	if !ok || s.conn != cx.Conn || len(window) < s.size || !bytes.HasPrefix(window, s.head) {
		s = &seen{conn: cx.Conn}
		cx.SetVar(seenVar, s)
	}
	if len(s.head) < headSize {
		s.head = bytes.Clone(window[:min(len(window), headSize)])
	}
	s.size = len(window)
	return s
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Matcher)(nil)
	_ layer4.ConnMatcher = (*Matcher)(nil)
)
