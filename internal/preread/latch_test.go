package preread

import (
	"slices"
	"testing"
	"time"
)

// tick is the smallest step of time.
const tick = time.Nanosecond

func TestDeadline(t *testing.T) {
	cfg := testConfig(t)
	window := hello("exact.example.com")
	deadline := t0.Add(DefaultTimeout)
	route := routed(0, "exact.example.com", "")
	type step struct {
		bytes int
		at    time.Time
		want  Verdict
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"C02_never_moves", []step{{1, t0, needMore(deadline)}, {2, t0.Add(time.Second), needMore(deadline)}, {2, deadline.Add(-tick), needMore(deadline)}}},
		{"C03_empty_arms", []step{{0, t0, needMore(deadline)}, {9, t0.Add(time.Second), needMore(deadline)}}},
		{"C07_just_before", []step{{9, t0, needMore(deadline)}, {len(window), deadline.Add(-tick), route}}},
		{"C07_complete_at_deadline", []step{{9, t0, needMore(deadline)}, {len(window), deadline, rejected(Fragmented)}}},
		{"C07_complete_later", []step{{9, t0, needMore(deadline)}, {len(window), deadline.Add(time.Hour), rejected(Fragmented)}, {len(window), t0, rejected(Fragmented)}}},
		{"decided_before_deadline_stays", []step{{len(window), t0, route}, {len(window), deadline.Add(time.Hour), route}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Core
			for _, s := range tc.steps {
				check(t, c.Bytes(cfg, window[:s.bytes], s.at), s.want)
			}
		})
	}
}

// TestDeadlineBeatsEverything: at the deadline the bytes aren't looked at any more.
func TestDeadlineBeatsEverything(t *testing.T) {
	cfg := testConfig(t)
	cfg.Timeout = 0
	for name, window := range map[string][]byte{"C08_hello": hello("exact.example.com"), "rubbish": []byte("GET /"), "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			var c Core
			check(t, c.Bytes(cfg, window, t0), rejected(Fragmented))
			if c.Hello() != nil {
				t.Error("got a hello, want none")
			}
		})
	}
}

// TestTimeoutOfAnotherCall: the timeout in force at the first call of Bytes counts.
func TestTimeoutOfAnotherCall(t *testing.T) {
	cfg, longer := testConfig(t), testConfig(t)
	longer.Timeout = time.Hour
	var c Core
	c.Bytes(cfg, nil, t0)
	check(t, c.Bytes(longer, []byte{22}, t0.Add(time.Second)), needMore(t0.Add(DefaultTimeout)))
}

// TestOutOfBand is C04: the end of time or of the stream, before and after the first bytes.
func TestOutOfBand(t *testing.T) {
	for _, tc := range []struct {
		name   string
		signal func(*Core) Verdict
		want   Reason
	}{
		{"timeout", (*Core).Timeout, Fragmented},
		{"front_closed", (*Core).FrontClosed, FrontClosed},
	} {
		t.Run(tc.name+"_first", func(t *testing.T) {
			var c Core
			check(t, tc.signal(&c), rejected(tc.want))
			check(t, c.Bytes(testConfig(t), hello("exact.example.com"), t0), rejected(tc.want))
		})
		t.Run(tc.name+"_half_way", func(t *testing.T) {
			var c Core
			c.Bytes(testConfig(t), hello("exact.example.com")[:30], t0)
			check(t, tc.signal(&c), rejected(tc.want))
			check(t, c.Bytes(testConfig(t), hello("exact.example.com"), t0), rejected(tc.want))
		})
	}
}

// TestLatch is C05 and C06: no input of any kind changes a final verdict.
func TestLatch(t *testing.T) {
	good := hello("exact.example.com")
	for name, window := range map[string][]byte{
		"routed": good, "not_tls": []byte("GET /"), "unmatched": hello("a.example.net"), "no_route": hello("alpn.example.com", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			var c Core
			want := c.Bytes(cfg, window, t0)
			server := c.ServerName()
			if want.Kind == NeedMore {
				t.Fatalf("got %+v, want a final verdict", want)
			}
			for _, later := range [][]byte{good, nil, []byte("rubbish"), slices.Concat(window, good)} {
				check(t, c.Bytes(cfg, later, t0.Add(time.Hour)), want)
				check(t, c.Timeout(), want)
				check(t, c.FrontClosed(), want)
			}
			if got := c.ServerName(); got != server {
				t.Errorf("got name %q, want %q", got, server)
			}
		})
	}
}

// TestLimit is the boundary table: what is complete is routed at any length, what is incomplete at the limit is not.
func TestLimit(t *testing.T) {
	window := hello("exact.example.com")
	size := len(window)
	longer := slices.Concat(window, make([]byte, 64))
	route := routed(0, "exact.example.com", "")
	more := needMore(t0.Add(DefaultTimeout))
	for _, tc := range []struct {
		name   string
		window []byte
		limit  int
		want   Verdict
	}{
		{"C09_complete_at_limit", window, size, route},
		{"complete_over_limit", window, size - 1, route},
		{"C09_incomplete_at_limit", window[:size-1], size - 1, rejected(TooLarge)},
		{"C09_incomplete_below_limit", window[:size-1], size + 1, more},
		{"incomplete_one_below_limit", window[:size-1], size, more},
		{"C10_incomplete_over_limit", window[:10], 8, rejected(TooLarge)},
		{"C11_trailing_bytes_over_limit", longer, size + 16, route},
		{"C12_no_limit_at_all", nil, 0, rejected(TooLarge)},
		{"C13_malformed_at_limit", []byte{22, 3, 3, 0xff, 0xff}, 5, rejected(MalformedRecord)},
		{"C13_not_tls_over_limit", []byte("GET / HTTP/1.1"), 5, rejected(NotTLS)},
		{"one_record_header", window[:MinMaxBytes], MinMaxBytes, rejected(TooLarge)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.MaxBytes = tc.limit
			check(t, decide(cfg, tc.window), tc.want)
		})
	}
}

// TestLimitsAreOrdered is S02 for the constants: the default lies in the range, and the range holds what it promises.
func TestLimitsAreOrdered(t *testing.T) {
	const (
		longestRecord = 5 + 16384
		longestProxy  = 16 + 65535
		longestHello  = 4 + 2 + 32 + 1 + 255 + 2 + 65535 + 1 + 255 + 2 + 65535
	)
	if MinMaxBytes != 5 || DefaultMaxBytes < longestRecord || MaxMaxBytes < longestProxy+6*longestHello {
		t.Errorf("got limits %d, %d, %d", MinMaxBytes, DefaultMaxBytes, MaxMaxBytes)
	}
	if MinTimeout <= 0 || DefaultTimeout < MinTimeout || MaxTimeout < DefaultTimeout {
		t.Errorf("got limits %v, %v, %v", MinTimeout, DefaultTimeout, MaxTimeout)
	}
}
