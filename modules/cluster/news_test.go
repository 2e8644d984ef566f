package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/health"
)

// subscribed is an events app with a subscriber.
type subscribed struct {
	emitted
	handle func(name string)
}

func (s *subscribed) Emit(ctx caddy.Context, name string, data map[string]any) caddy.Event {
	event := s.emitted.Emit(ctx, name, data)
	s.handle(name)
	return event
}

// TestSubscriberThatHangs checks that nobody waits for a subscriber: not what is told after it, and not a stop. What it has
// not got is emitted by the config after.
func TestSubscriberThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, logs := watched(t, settings{policy: falling})
		release := make(chan struct{})
		events := &subscribed{handle: func(string) { <-release }}
		c.events = events
		const first, second = " 192.0.2.1:1000", " 192.0.2.1:1001"
		settle(t, c, Outcome{Kind: health.Reset})
		settle(t, c, Outcome{Kind: health.Reset})
		settle(t, c, Outcome{Kind: health.Reset})
		settle(t, c, Outcome{Kind: health.Reset})
		checkTold(t, &events.emitted, logs, []string{eventDown + first}, "endpoint is not available", "endpoint is not available",
			"too few endpoints are available: using all, whatever is known about their health")
		next := handle(t, *c.set)
		if err := StartAll([]*Cluster{next}); err != nil {
			t.Fatal(err)
		}
		StopAll([]*Cluster{c})
		checkTold(t, next.events.(*emitted), logs, []string{eventDown + second, eventPanic})
		close(release)
		checkTold(t, &events.emitted, logs, nil)
		settle(t, next, Outcome{})
		checkTold(t, next.events.(*emitted), logs, []string{eventUp + first})
		StopAll([]*Cluster{next})
	})
}

// TestSubscriberThatReloads checks that a subscriber may start another config and stop that whose event it got.
func TestSubscriberThatReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := watched(t, settings{policy: falling})
		var next *Cluster
		c.events = &subscribed{handle: func(string) {
			next = handle(t, *c.set)
			if err := StartAll([]*Cluster{next}); err != nil {
				t.Error(err)
			}
			StopAll([]*Cluster{c})
		}}
		settle(t, c, Outcome{Kind: health.Reset})
		settle(t, c, Outcome{Kind: health.Reset})
		synctest.Wait()
		if c.state.running[0] != next || len(c.state.running) != 1 {
			t.Errorf("got %d that run", len(c.state.running))
		}
		settle(t, next, Outcome{Kind: health.Reset})
		settle(t, next, Outcome{Kind: health.Reset})
		synctest.Wait()
		if got := next.events.(*emitted).take(); !slices.Equal(got, []string{eventDown + " 192.0.2.1:1001", eventPanic}) {
			t.Errorf("got %q", got)
		}
		StopAll([]*Cluster{next})
	})
}

// TestTooMuchNews checks that of what is too much, the older news of the same endpoint make room, and else the oldest.
func TestTooMuchNews(t *testing.T) {
	var n news
	n.begin()
	add := func(endpoint, name string) { n.add(notice{endpoint: endpoint, name: name}) }
	for i := range maxNews {
		add(fmt.Sprint(i), "down")
	}
	add("", "panic")
	add("5", "up")
	add("", "again")
	if len(n.list) != maxNews || n.dropped() != 3 {
		t.Fatalf("got %d, %d dropped", len(n.list), n.dropped())
	}
	var got []notice
	for {
		one, ok := n.next(n.run)
		if !ok {
			break
		}
		got = append(got, one)
	}
	has := func(endpoint, name string) bool {
		return slices.ContainsFunc(got, func(one notice) bool { return one.endpoint == endpoint && one.name == name })
	}
	if has("0", "down") || has("5", "down") || has("", "panic") || !has("5", "up") || !has("", "again") || !has("1", "down") ||
		got[0].endpoint != "1" || got[maxNews-1].name != "again" {
		t.Errorf("got %v … %v", got[:3], got[maxNews-3:])
	}
}

// TestEmptyFromTheStart checks that a cluster without endpoints says so, once, and that the first ones end that.
func TestEmptyFromTheStart(t *testing.T) {
	const refusing = "no endpoint can be used: there is none"
	for _, row := range []struct {
		name string
		err  error
		want []string
	}{
		{"nothing found", nil, []string{refusing}},
		{"lookup fails", errors.New("no answer"), []string{refusing, "finding endpoints fails: there are none from before"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := &scripted{err: row.err}
				start := func() (*Cluster, *observer.ObservedLogs) {
					c := handle(t, finding(from))
					core, logs := observer.New(zap.InfoLevel)
					c.logger = zap.New(core)
					if err := StartAll([]*Cluster{c}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Second) // virtual time
					return c, logs
				}
				c, logs := start()
				got, events := lines(logs), c.events.(*emitted).take()
				slices.Sort(got)
				slices.Sort(row.want)
				if !slices.Equal(got, row.want) || !slices.Equal(events, []string{eventPanic}) {
					t.Errorf("got lines %q, events %q", got, events)
				}
				after, logs := start()
				StopAll([]*Cluster{c})
				if got := lines(logs); slices.Contains(got, refusing) {
					t.Errorf("got lines %q after a reload", got)
				}
				from.mu.Lock()
				from.found, from.err = foundAt(1), nil
				from.mu.Unlock()
				time.Sleep(5 * time.Second) // virtual time
				if got := lines(logs); !slices.Contains(got, "enough endpoints are available") {
					t.Errorf("got lines %q with endpoints", got)
				}
				StopAll([]*Cluster{after})
			})
		})
	}
}
