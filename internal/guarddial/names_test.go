package guarddial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/caddy-sluice/sluice/internal/namecache"
	"github.com/caddy-sluice/sluice/internal/testkit/dns"
)

// script answers the lookups of one Names, one after the other, and counts them.
type script struct {
	answers []answer
	asked   []string
}

type answer struct {
	addrs []netip.Addr
	err   error
}

// lookup returns the next answer. The last one is given again and again.
func (s *script) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	next := s.answers[min(len(s.asked), len(s.answers)-1)]
	s.asked = append(s.asked, host)
	return slices.Clone(next.addrs), next.err
}

// has is an answer with addresses.
func has(list ...string) answer {
	var a answer
	for _, s := range list {
		a.addrs = append(a.addrs, netip.MustParseAddr(s))
	}
	return a
}

// wantAddr looks a name up and checks its only address.
func wantAddr(t *testing.T, n *Names, host, want string) {
	t.Helper()
	got, err := n.Lookup(t.Context(), host)
	if err != nil || len(got) != 1 || got[0].String() != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}

func TestNamesAreKeptForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script{answers: []answer{has("192.0.2.1"), has("192.0.2.2")}}
		n := Names{lookup: s.lookup}
		wantAddr(t, &n, "a.test", "192.0.2.1")
		time.Sleep(namecache.TTL - 1) // virtual time
		wantAddr(t, &n, "A.test", "192.0.2.1")
		time.Sleep(time.Nanosecond) // virtual time
		wantAddr(t, &n, "a.test", "192.0.2.2")
		if len(s.asked) != 2 {
			t.Errorf("got %v asked for, want two questions", s.asked)
		}
	})
}

func TestFailuresAreNotKept(t *testing.T) {
	failed := errors.New("no answer")
	s := script{answers: []answer{{err: failed}, has("192.0.2.1")}}
	n := Names{lookup: s.lookup}
	if _, err := n.Lookup(t.Context(), "a.test"); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	wantAddr(t, &n, "a.test", "192.0.2.1")
}

func TestThousandRequestsMakeOneLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		release := make(chan struct{})
		n := Names{lookup: func(context.Context, string) ([]netip.Addr, error) {
			asked++
			<-release
			return has("192.0.2.1").addrs, nil
		}}
		for range 1000 {
			go func() { wantAddr(t, &n, "a.test", "192.0.2.1") }()
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if asked != 1 || len(n.flights) != 0 {
			t.Errorf("got %d lookups, %d of them under way, want one that is over", asked, len(n.flights))
		}
	})
}

// hanging is a lookup that ends with its context, and says how.
func hanging(ended *[]error) func(context.Context, string) ([]netip.Addr, error) {
	return func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		*ended = append(*ended, ctx.Err())
		return nil, ctx.Err()
	}
}

func TestOneThatGoesEndsHisOwnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []error
		n := Names{lookup: hanging(&ended)}
		results := make(chan error, 2)
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{first, second} {
			go func() {
				_, err := n.Lookup(ctx, "a.test")
				results <- err
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		if len(results) != 1 || len(ended) != 0 {
			t.Fatalf("got %d callers and %d lookups at an end, want one caller", len(results), len(ended))
		}
		leaveToo()
		synctest.Wait()
		if len(results) != 2 || !slices.Equal(ended, []error{context.Canceled}) || len(n.flights) != 0 {
			t.Fatalf("got %d callers at an end, lookups %v, %d under way", len(results), ended, len(n.flights))
		}
		for range 2 {
			if err := <-results; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		}
	})
}

// TestLookupAfterAllHaveGone begins a lookup while one that nobody waits for has not ended yet.
func TestLookupAfterAllHaveGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		asked := 0
		n := Names{lookup: func(context.Context, string) ([]netip.Addr, error) {
			if asked++; asked == 1 {
				<-release
				return nil, context.Canceled
			}
			return has("192.0.2.1").addrs, nil
		}}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := n.Lookup(gone, "a.test"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		synctest.Wait()
		wantAddr(t, &n, "a.test", "192.0.2.1")
		close(release)
		synctest.Wait()
		wantAddr(t, &n, "a.test", "192.0.2.1")
	})
}

func TestLookupsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []error
		n := Names{lookup: hanging(&ended)}
		start := time.Now()
		if _, err := n.Lookup(t.Context(), "a.test"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(start); took != lookupTimeout {
			t.Errorf("got the end after %v, want %v", took, lookupTimeout)
		}
	})
}

func TestOutOfFiles(t *testing.T) {
	// As the resolver says it.
	text := &net.DNSError{Err: "dial udp 192.0.2.53:53: socket: " + syscall.EMFILE.Error(), Name: "a.test"}
	for _, tc := range []struct {
		name string
		age  time.Duration
		err  error
		ok   bool
	}{
		{"process", 5 * time.Minute, fmt.Errorf("socket: %w", syscall.EMFILE), true},
		{"system", 5 * time.Minute, fmt.Errorf("socket: %w", syscall.ENFILE), true},
		{"as_text", 5 * time.Minute, text, true},
		{"too_old", 5*time.Minute + 1, text, false},
		{"another_failure", 2 * time.Minute, &net.DNSError{Err: "server misbehaving", Name: "a.test"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script{answers: []answer{has("192.0.2.1"), {err: tc.err}}}
				n := Names{lookup: s.lookup}
				wantAddr(t, &n, "a.test", "192.0.2.1")
				time.Sleep(tc.age) // virtual time
				got, err := n.Lookup(t.Context(), "a.test")
				if tc.ok != (err == nil && len(got) == 1) || !tc.ok && !errors.Is(err, tc.err) {
					t.Errorf("got %v, %v, want it served: %v", got, err, tc.ok)
				}
				if short := tc.name == "too_old"; errors.Is(err, syscall.EMFILE) != short {
					t.Errorf("got %v, want it to say that this machine is short of files: %v", err, short)
				}
			})
		})
	}
}

// TestNamesWithAResolver asks a name server.
func TestNamesWithAResolver(t *testing.T) {
	n := Names{Resolver: resolverOf(t, "192.0.2.1")}
	wantAddr(t, &n, name, "192.0.2.1")
	n = Names{Resolver: dns.Serve(t, func(string, dnsmessage.Type) []netip.Addr { return nil })}
	if _, err := n.Lookup(t.Context(), name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v, want an error that names %s", err, name)
	}
}

// TestCachedAnswersAreJudged has a name that is public at first, and this host's once the cache asks again.
func TestCachedAnswersAreJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script{answers: []answer{has("192.0.2.1"), has("10.0.0.1")}}
		n := Names{lookup: s.lookup}
		var got dialled
		d := Dialer{Lookup: n.Lookup, dial: got.dial}
		for range 2 {
			conn, err := d.Dial(t.Context(), name, 443, true)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		time.Sleep(namecache.TTL) // virtual time
		for range 2 {             // the second one is a hit
			_, err := d.Dial(t.Context(), name, 443, true)
			wantRefused(t, err, name, "10.0.0.1")
			_, err = d.Resolve(t.Context(), name, true)
			wantRefused(t, err, name, "10.0.0.1")
		}
		if len(s.asked) != 2 || len(got) != 2 {
			t.Errorf("got %d lookups, %v dialled, want two of each", len(s.asked), got)
		}
	})
}

func TestResolve(t *testing.T) {
	shared := has("::ffff:192.0.2.1", "2001:db8::1").addrs
	d := Dialer{Lookup: func(context.Context, string) ([]netip.Addr, error) { return shared, nil }}
	got, err := d.Resolve(t.Context(), name, true)
	if want := has("192.0.2.1", "2001:db8::1").addrs; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if !shared[0].Is4In6() {
		t.Errorf("the cache's answer was changed: %v", shared)
	}
	if got, err := d.Resolve(t.Context(), "[::ffff:127.0.0.1]", true); err != nil || got[0].String() != "127.0.0.1" {
		t.Errorf("got %v, %v, want the operator's literal", got, err)
	}
	_, err = d.Resolve(t.Context(), "127.0.0.1", false)
	wantRefused(t, err, "127.0.0.1", "127.0.0.1")
	d.Lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, nil }
	_, err = d.Resolve(t.Context(), name, true)
	if failed, ok := errors.AsType[*ResolveError](err); !ok || failed.Host != name {
		t.Errorf("got %v, want a resolve error", err)
	}
}

// BenchmarkHit looks up a name that the cache has.
func BenchmarkHit(b *testing.B) {
	s := script{answers: []answer{has("192.0.2.1", "192.0.2.2")}}
	n := Names{lookup: s.lookup}
	for b.Loop() {
		if _, err := n.Lookup(b.Context(), "upstream.example.test"); err != nil {
			b.Fatal(err)
		}
	}
	if len(s.asked) > 1+int(b.Elapsed()/namecache.TTL) {
		b.Errorf("got %d lookups", len(s.asked))
	}
}
