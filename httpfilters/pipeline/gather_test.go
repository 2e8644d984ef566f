package pipeline

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// broken is a matcher that fails.
type broken struct{}

func (broken) MatchWithError(*http.Request) (bool, error) { return false, errTest }

// The conditions of filters that never take part, and of those of which nobody can tell.
var (
	never           = []condition{{match: caddyhttp.MatcherSets{{caddyhttp.MatchMethod{"NONE"}}}, want: true}}
	brokenCondition = []condition{{match: caddyhttp.MatcherSets{{broken{}}}, want: true}}
)

// TestResponseToHeldBodies checks which filters see the answer to a request that has ended while its body was read ahead.
func TestResponseToHeldBodies(t *testing.T) {
	hold := Wish{Access: ReadWrite, Mode: Buffer, Max: 8}
	for name, tc := range map[string]struct {
		hook func(*Exchange, *Chunk) (Action, error)
		open bool
		body string
		wish Wish
		want int
		saw  []string
	}{
		"passes": {hook: idle, body: "hello", want: 200, saw: []string{"behind", "body", "front"}},
		"rejects": {
			hook: func(*Exchange, *Chunk) (Action, error) { return Continue, Reject(422, errors.New("no")) },
			body: "hello", want: 422, saw: []string{"body", "front"},
		},
		"rejects, open": {
			hook: func(*Exchange, *Chunk) (Action, error) { return Continue, Reject(422, errors.New("no")) },
			body: "hello", want: 422, saw: []string{"body", "front"}, open: true,
		},
		"fails": {
			hook: func(*Exchange, *Chunk) (Action, error) { return Continue, errTest },
			body: "hello", want: 500, saw: []string{"body", "front"},
		},
		"panics": {
			hook: func(*Exchange, *Chunk) (Action, error) { panic("test") },
			body: "hello", want: 500, saw: []string{"body", "front"},
		},
		"replaces what it may only read": {
			hook: func(_ *Exchange, c *Chunk) (Action, error) { c.Replace(nil); return Continue, nil },
			wish: Wish{Access: ReadOnly, Mode: Buffer}, body: "hello", want: 500, saw: []string{"body", "front"},
		},
		"fails openly, too long": {
			hook: func(*Exchange, *Chunk) (Action, error) { return Continue, errTest },
			body: "hello, world", want: 413, saw: []string{"behind", "body", "front"}, open: true,
		},
		"too long": {hook: idle, body: "hello, world", want: 413, saw: []string{"behind", "body", "front"}},
		"grows": {
			hook: func(_ *Exchange, c *Chunk) (Action, error) { c.Replace([]byte("hello, world")); return Continue, nil },
			body: "hello", want: 413, saw: []string{"behind", "body", "front"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var saw []string
			sees := func(name string) onResponse {
				return func(x *Exchange) error {
					saw = append(saw, name)
					if x.Response().Status != tc.want || (x.Err() != nil) != (tc.want != 200) {
						t.Errorf("%s got %d, %v", name, x.Response().Status, x.Err())
					}
					return nil
				}
			}
			if tc.wish.Access == None {
				tc.wish = hold
			}
			s := newSite(t, newHandler(t,
				entry{name: "front", response: sees("front")},
				entry{name: "skipped", response: sees("skipped"), conditions: never},
				entry{name: "body", requestBody: onRequestBody{tc.wish, tc.hook}, response: sees("body"), open: tc.open},
				entry{name: "behind", response: sees("behind")},
			))
			if got := post(t, s, tc.body); got.StatusCode != tc.want {
				t.Errorf("got %d, %v, want %d", got.StatusCode, got.err, tc.want)
			}
			if !slices.Equal(saw, tc.saw) {
				t.Errorf("got %q see the answer, want %q", saw, tc.saw)
			}
		})
	}
}

// TestResponseToConditions: a condition that fails has the filters in front of it see the answer.
func TestResponseToConditions(t *testing.T) {
	var saw []string
	sees := func(name string) onResponse {
		return func(*Exchange) error { saw = append(saw, name); return nil }
	}
	failing := entry{name: "body", requestBody: onRequestBody{buffered, idle}, response: sees("body")}
	failing.conditions = brokenCondition
	s := newSite(t, newHandler(t, entry{name: "front", response: sees("front")}, failing, entry{name: "behind", response: sees("behind")}))
	if got := post(t, s, "x"); got.StatusCode != http.StatusInternalServerError || !slices.Equal(saw, []string{"front"}) {
		t.Errorf("got %d, %q see the answer", got.StatusCode, saw)
	}
}
