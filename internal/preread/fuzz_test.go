package preread

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/snitable"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// fuzzSteps is the greatest number of inputs to one core.
const fuzzSteps = 4096

// FuzzCore states the laws of the core. wire is what the client sends; each byte of script is one input; knobs choose
// the configuration.
func FuzzCore(f *testing.F) {
	for _, rec := range hellos.Recorded() {
		f.Add(rec.Bytes, []byte{0xff, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, uint16(0xff))
	}
	f.Add(hello("a.example.com", "h2"), []byte{0x21, 0xff, 0x02, 0x03}, uint16(0xff))
	f.Add(hello("a.example.com"), []byte{0x21, 0x20, 0x02}, uint16(0x1))
	f.Add(hellos.Wrap(hellos.Message(hellos.Options{ServerName: "x.y.test", ECH: true}), 0, 7, 30), []byte{0xff, 0x03}, uint16(0x80))
	f.Add(slices.Concat(proxyInet, hello("SINGLE.", "http/1.1", "h2")), []byte{0x41, 0xff, 0xff}, uint16(0x1ff))
	f.Add(slices.Concat(proxyLine, hello("192.0.2.1")), []byte{0x41, 0xff, 0xff}, uint16(0x1ff))
	f.Add([]byte("GET / HTTP/1.1\r\n"), []byte{0x05}, uint16(0))
	f.Fuzz(func(t *testing.T, wire, script []byte, knobs uint16) {
		cfg := fuzzConfig(t, knobs)
		runScript(t, cfg, wire, script[:min(len(script), fuzzSteps)])
		longerWindowsAgree(t, cfg, wire)
		recordsDontMatter(t, cfg, wire, script)
	})
}

// fuzzConfig: the low 8 bits choose the patterns of the table, the next one the PROXY header, the rest the limit
// (64 bytes to 16 KiB).
func fuzzConfig(t *testing.T, knobs uint16) *Config {
	t.Helper()
	var routes []snitable.Route
	for i, p := range simPatterns {
		if knobs>>i&1 != 0 {
			routes = append(routes, snitable.Route{Names: []string{p}, ALPN: [][]string{nil, {"h2"}}[i%2]})
		}
	}
	limit := 64 + int(knobs>>9)*(16384-64)/127
	return &Config{Table: newTable(t, routes), Proxy: knobs>>8&1 != 0, MaxBytes: limit, Timeout: DefaultTimeout}
}

// runScript gives a core inputs of all kinds. Its answers obey the latch, the deadline and the window's bounds.
//
// An input is a byte of the script: 00 is a timeout, 01 the end of the stream, 02 to 0f let time pass (up to 5 s), and
// the others are the number of bytes that arrive.
func runScript(t *testing.T, cfg *Config, wire, script []byte) {
	t.Helper()
	var c Core
	var last Verdict
	var deadline time.Time
	n, now := 0, t0
	for _, step := range script {
		var got Verdict
		switch {
		case step == 0:
			got = c.Timeout()
		case step == 1:
			got = c.FrontClosed()
		case step < 0x10:
			now = now.Add(DefaultTimeout / 14 * time.Duration(step-1))
			continue
		default:
			n = min(n+int(step), len(wire))
			window := bytes.Clone(wire[:n])
			got = c.Bytes(cfg, window, now)
			if deadline.IsZero() {
				deadline = now.Add(cfg.Timeout)
			}
			if !bytes.Equal(window, wire[:n]) {
				t.Fatal("the window was changed")
			}
		}
		checkAnswer(t, last, got, deadline, n)
		last = got
	}
}

// checkAnswer holds one answer against the one before it.
func checkAnswer(t *testing.T, last, got Verdict, deadline time.Time, n int) {
	t.Helper()
	switch {
	case last.Kind != NeedMore && got != last:
		t.Fatalf("got %+v after %+v", got, last)
	case got.Offset > n:
		t.Fatalf("got offset %d in a window of %d bytes", got.Offset, n)
	case got.Kind == NeedMore && got.Deadline != deadline:
		t.Fatalf("got deadline %v, want %v", got.Deadline, deadline)
	case got.Kind != NeedMore && !got.Deadline.IsZero():
		t.Fatalf("got deadline %v in %+v", got.Deadline, got)
	case (got.Kind == Reject) != (got.Reason != None):
		t.Fatalf("got %+v", got)
	}
}

// longerWindowsAgree: a verdict that isn't about size is the same for every longer window, and for a core that got
// there byte by byte.
func longerWindowsAgree(t *testing.T, cfg *Config, wire []byte) {
	t.Helper()
	unlimited := *cfg
	unlimited.MaxBytes = len(wire) + 1
	var drip Core
	for n := range wire {
		got := drip.Bytes(&unlimited, wire[:n+1], t0)
		if got.Kind == NeedMore {
			continue
		}
		for _, longer := range []int{n + 1, n + 2, n + 1 + (len(wire)-n)/2, len(wire)} {
			if at := decide(&unlimited, wire[:min(longer, len(wire))]); at != got {
				t.Fatalf("%d bytes: got %+v; %d bytes at once: %+v", n+1, got, longer, at)
			}
		}
		if n > 0 {
			if before := decide(&unlimited, wire[:n]); before.Kind != NeedMore {
				t.Fatalf("%d bytes at once: got %+v, want more bytes to be asked for", n, before)
			}
		}
		limitRule(t, cfg, wire, n+1, got)
		return
	}
	if got := decide(&unlimited, wire); got.Kind != NeedMore {
		t.Fatalf("got %+v, want more bytes to be asked for", got)
	}
}

// limitRule: a caller that never reads past the limit gets the verdict when it fits, else TooLarge; one that does gets
// the verdict.
func limitRule(t *testing.T, cfg *Config, wire []byte, n int, want Verdict) {
	t.Helper()
	if got := decide(cfg, wire[:n]); got != want {
		t.Fatalf("%d bytes with limit %d: got %+v, want %+v", n, cfg.MaxBytes, got, want)
	}
	if cfg.MaxBytes >= n {
		return
	}
	if got := decide(cfg, wire[:cfg.MaxBytes]); got.Reason != TooLarge {
		t.Fatalf("%d bytes at limit %d: got %+v, want %v", cfg.MaxBytes, cfg.MaxBytes, got, TooLarge)
	}
}

// recordsDontMatter: a complete hello cut into other records gets the same verdict.
func recordsDontMatter(t *testing.T, cfg *Config, wire, sizes []byte) {
	t.Helper()
	var c Core
	want := c.Bytes(cfg, wire, t0)
	hello := c.Hello()
	if hello == nil {
		return
	}
	var message []byte
	for stream := wire[want.Offset:][:hello.WireSize]; len(stream) > 0; {
		end := 5 + int(stream[3])<<8 + int(stream[4])
		message = append(message, stream[5:end]...)
		stream = stream[end:]
	}
	lengths := []int{}
	for _, s := range sizes {
		lengths = append(lengths, int(s))
	}
	lengths = append(lengths, 1+len(sizes))
	again := slices.Concat(wire[:want.Offset], hellos.Wrap(message[:hello.Size], lengths...))
	if got := decide(cfg, again); got != want {
		t.Fatalf("in other records: got %+v, want %+v", got, want)
	}
}
