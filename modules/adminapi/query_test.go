package adminapi

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/modules/session"
)

// list are the sessions of these tests. They are not in the order of their IDs.
var list = []session.Snapshot{
	{ID: 2, Client: "10.0.0.1:1000", Listener: "10.1.1.1:443", ServerName: "a.example.com", Pattern: "*.example.com", Upstream: "10.2.2.2:443"},
	{ID: 5, Client: "10.0.0.2:1000", Listener: "10.1.1.1:443", ServerName: "b.example.com", Pattern: "*.example.com", Cluster: "web"},
	{ID: 3, Client: "[2001:db8::1]:1000", Listener: "10.1.1.1:8443", Reason: "handed_over"},
	{ID: 9, Client: "[::ffff:10.0.0.1]:1000", Listener: "10.1.1.1:8443", Reason: "killed"},
	{ID: 7, Client: "[fe80::1%eth0]:1000", Listener: "10.1.1.1:8443"},
	{ID: 8, Client: "@", Listener: "/run/sluice"},
}

// TestPage checks which sessions are on a page, in which order, how many there are in all, and where to go on.
func TestPage(t *testing.T) {
	for _, tc := range []struct {
		query string
		want  []uint64
		total int
		next  string
	}{
		{"", []uint64{2, 3, 5, 7, 8, 9}, 6, ""},
		{"client=10.0.0.1", []uint64{2, 9}, 2, ""},
		{"client=::ffff:10.0.0.1", []uint64{2, 9}, 2, ""},
		{"client=10.0.0.0/8", []uint64{2, 5, 9}, 3, ""},
		{"client=2001:db8::/32", []uint64{3}, 1, ""},
		{"client=fe80::1", []uint64{7}, 1, ""},
		{"client=::/0", []uint64{3, 7}, 2, ""},
		{"client=192.0.2.1", nil, 0, ""},
		{"listener=10.1.1.1:443", []uint64{2, 5}, 2, ""},
		{"listener=/run/sluice", []uint64{8}, 1, ""},
		{"server_name=a.example.com", []uint64{2}, 1, ""},
		{"server_name=", []uint64{3, 7, 8, 9}, 4, ""},
		{"pattern=*.example.com", []uint64{2, 5}, 2, ""},
		{"upstream=10.2.2.2:443", []uint64{2}, 1, ""},
		{"cluster=web", []uint64{5}, 1, ""},
		{"reason=", []uint64{2, 5, 7, 8}, 4, ""},
		{"reason=handed_over", []uint64{3}, 1, ""},
		{"pattern=*.example.com&client=10.0.0.2", []uint64{5}, 1, ""},
		{"limit=2", []uint64{2, 3}, 6, "3"},
		{"limit=2&after=3", []uint64{5, 7}, 6, "7"},
		{"limit=2&after=7", []uint64{8, 9}, 6, ""},
		{"limit=6", []uint64{2, 3, 5, 7, 8, 9}, 6, ""},
		{"limit=1000&after=9", nil, 6, ""},
		{"after=4", []uint64{5, 7, 8, 9}, 6, ""},
		{"limit=1&client=10.0.0.0/8", []uint64{2}, 3, "2"},
	} {
		t.Run(tc.query, func(t *testing.T) {
			values, err := url.ParseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			q, err := parseQuery(values)
			if err != nil {
				t.Fatal(err)
			}
			p := q.page(slices.Values(list))
			var got []uint64
			for _, s := range p.Sessions {
				got = append(got, s.ID)
			}
			if !slices.Equal(got, tc.want) || p.Total != tc.total || p.Next != tc.next {
				t.Errorf("got %v of %d, next %q, want %v of %d, next %q", got, p.Total, p.Next, tc.want, tc.total, tc.next)
			}
		})
	}
}

// TestParseQueryErrors checks that what is wrong is named.
func TestParseQueryErrors(t *testing.T) {
	for query, want := range map[string]string{
		"clientt=10.0.0.1":       "parameter clientt: is unknown",
		"client=":                `parameter client: "" is neither`,
		"client=localhost":       `parameter client: "localhost" is neither`,
		"client=10.0.0.0/33":     `parameter client: "10.0.0.0/33" is neither`,
		"client=10.0.0.1:80":     `parameter client: "10.0.0.1:80" is neither`,
		"limit=0":                `parameter limit: "0" is out of range, 1 to 1000`,
		"limit=1001":             `parameter limit: "1001" is out of range`,
		"limit=":                 `parameter limit: "" is out of range`,
		"limit=ten":              `parameter limit: "ten" is out of range`,
		"after=":                 `parameter after: "" is not the ID`,
		"after=-1":               `parameter after: "-1" is not the ID`,
		"reason=completed":       `parameter reason: "completed" must be empty or "handed_over"`,
		"cluster=a&cluster=b":    "parameter cluster: is given twice",
		"server_name=a&unknown=": "parameter unknown: is unknown",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseQuery(values); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", query, err, want)
		}
	}
}

// TestPageKeepsLittle checks that the memory for a page does not depend on the number of sessions.
func TestPageKeepsLittle(t *testing.T) {
	const sessions = 20_000
	all := func(yield func(session.Snapshot) bool) {
		for id := range uint64(sessions) {
			if !yield(session.Snapshot{ID: sessions - id}) {
				return
			}
		}
	}
	q := &query{limit: defaultLimit}
	var p *page
	if got := testing.AllocsPerRun(1, func() { p = q.page(all) }); got > 100 {
		t.Errorf("got %v allocations, want at most 100", got)
	}
	if len(p.Sessions) != defaultLimit || cap(p.Sessions) > 4*defaultLimit || p.Total != sessions || p.Next != "100" {
		t.Errorf("got %d sessions in room for %d, of %d, next %q", len(p.Sessions), cap(p.Sessions), p.Total, p.Next)
	}
}
