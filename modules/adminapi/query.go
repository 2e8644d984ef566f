package adminapi

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	defaultLimit = 100
	// maxLimit keeps an answer below half a megabyte.
	maxLimit = 1000
)

// filter says whether a session is one of those asked for.
type filter func(session.Snapshot) bool

// query is what a list of sessions was asked for.
type query struct {
	filters []filter
	limit   int
	after   uint64
}

// page is the answer: the sessions by ID, how many there are in all, and where to go on.
type page struct {
	Sessions []session.Snapshot `json:"sessions"`
	// Total counts the sessions that match, those on other pages included.
	Total int `json:"total"`
	// Next is the value of `after` for the next page; empty on the last.
	Next string `json:"next,omitempty"`
}

// parseQuery reads the parameters. One that is not known, empty where that means nothing, or given twice is an error, so
// that a typing mistake can't show, or select, too much.
func parseQuery(values url.Values) (*query, error) {
	q := &query{limit: defaultLimit}
	for name, given := range values {
		if len(given) > 1 {
			return nil, fmt.Errorf("parameter %s: is given twice", name)
		}
		if err := q.parse(name, given[0]); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return q, nil
}

func (q *query) parse(name, value string) (err error) {
	switch name {
	case "limit":
		q.limit, err = parseLimit(value)
	case "after":
		q.after, err = parseID(value)
	case "reason":
		err = q.filterReason(value)
	case "client":
		err = q.filterClient(value)
	case "listener":
		q.equal(value, func(s session.Snapshot) string { return s.Listener })
	case "server_name":
		q.equal(value, func(s session.Snapshot) string { return s.ServerName })
	case "upstream":
		q.equal(value, func(s session.Snapshot) string { return s.Upstream })
	case "cluster":
		q.equal(value, func(s session.Snapshot) string { return s.Cluster })
	case "pattern":
		q.equal(value, func(s session.Snapshot) string { return s.Pattern })
	default:
		err = fmt.Errorf("is unknown: there are client, listener, server_name, upstream, cluster, pattern, reason, limit and after")
	}
	return err
}

// equal asks for sessions in which a field has this value, which may be empty.
func (q *query) equal(value string, field func(session.Snapshot) string) {
	q.filters = append(q.filters, func(s session.Snapshot) bool { return field(s) == value })
}

// filterReason asks for sessions that go on, or for those that were handed over.
func (q *query) filterReason(value string) error {
	if value != "" && value != session.HandedOver.String() {
		return fmt.Errorf("%q must be empty or %q", value, session.HandedOver)
	}
	q.equal(value, func(s session.Snapshot) string { return s.Reason })
	return nil
}

// filterClient asks for sessions of an address or of a range of addresses.
func (q *query) filterClient(value string) error {
	prefix, err := netip.ParsePrefix(value)
	if err != nil {
		addr, err := netip.ParseAddr(value)
		if err != nil {
			return fmt.Errorf("%q is neither an IP address nor a range in CIDR notation", value)
		}
		addr = addr.Unmap()
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	q.filters = append(q.filters, func(s session.Snapshot) bool {
		client, err := netip.ParseAddrPort(s.Client)
		return err == nil && prefix.Contains(client.Addr().Unmap().WithZone(""))
	})
	return nil
}

func parseLimit(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxLimit {
		return 0, fmt.Errorf("%q is out of range, 1 to %d", value, maxLimit)
	}
	return n, nil
}

func parseID(value string) (uint64, error) {
	id, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not the ID of a session, which is a number", value)
	}
	return id, nil
}

// page picks the sessions of this page. It looks at all, since a session may have moved on the list since it began, and
// keeps no more than it must of those that match.
func (q *query) page(all iter.Seq[session.Snapshot]) *page {
	p := &page{Sessions: []session.Snapshot{}}
	left := 0
	for s := range all {
		if !q.matches(s) {
			continue
		}
		p.Total++
		if s.ID <= q.after {
			continue
		}
		left++
		if p.Sessions = append(p.Sessions, s); len(p.Sessions) >= 2*q.limit {
			p.cut(q.limit)
		}
	}
	p.cut(q.limit)
	if left > q.limit {
		p.Next = strconv.FormatUint(p.Sessions[q.limit-1].ID, 10)
	}
	return p
}

// cut puts the sessions in the order of their IDs and leaves the first of them.
func (p *page) cut(limit int) {
	slices.SortFunc(p.Sessions, func(a, b session.Snapshot) int { return cmp.Compare(a.ID, b.ID) })
	p.Sessions = p.Sessions[:min(limit, len(p.Sessions))]
}

func (q *query) matches(s session.Snapshot) bool {
	for _, f := range q.filters {
		if !f(s) {
			return false
		}
	}
	return true
}
