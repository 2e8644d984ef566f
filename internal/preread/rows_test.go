package preread

import (
	"slices"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// TestMessageWithoutEnd is T20: a message that announces more than it may be, in records of the longest legal size. It is
// read up to the default limit and not judged before.
func TestMessageWithoutEnd(t *testing.T) {
	cfg := testConfig(t)
	message := append([]byte{1, 0xff, 0xff, 0xff}, make([]byte, 2*DefaultMaxBytes)...)
	window := hellos.Wrap(message)
	more := needMore(t0.Add(DefaultTimeout))
	var c Core
	for n := 0; n < DefaultMaxBytes; n += 1000 {
		check(t, c.Bytes(cfg, window[:n], t0), more)
	}
	check(t, c.Bytes(cfg, window[:DefaultMaxBytes-1], t0), more)
	check(t, c.Bytes(cfg, window[:DefaultMaxBytes], t0), rejected(TooLarge))
}

// TestLongestRecordFits: a hello that fills the longest legal record is routed with the default limit, also behind a
// PROXY header.
func TestLongestRecordFits(t *testing.T) {
	cfg := testConfig(t)
	cfg.Proxy = true
	window := hellos.New(hellos.Options{ServerName: "exact.example.com", Pad: hellos.MaxRecord})
	want := routed(0, "exact.example.com", "")
	want.Offset = len(proxyInet)
	check(t, decide(cfg, slices.Concat(proxyInet, window)), want)
}
