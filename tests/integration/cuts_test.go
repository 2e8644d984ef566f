package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// startAB runs a router with a route for the names, and a fallback for everything else; both are digesters.
func startAB(l *lab, names ...string) *proxy {
	l.Helper()
	return l.start(fmt.Sprintf(`
		sni_router {
			route %s {
				forward %s
			}
			fallback {
				forward %s
			}
		}`, strings.Join(names, " "), l.digester("route"), l.digester("fallback")))
}

// askAll asks with all the parts at once, workers at a time, and checks that each answer is the wanted one.
func askAll(p *proxy, pause time.Duration, want string, flights [][][]byte) {
	p.Helper()
	const workers = 16
	var wait sync.WaitGroup
	slots := make(chan struct{}, workers)
	for i, flight := range flights {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if got, err := p.ask(pause, flight...); err != nil || got != want {
				p.Errorf("flight %d: got %q, %v, want %q", i, got, err, want)
			}
		})
	}
	wait.Wait()
}

func TestHelloCutAtEveryPosition(t *testing.T) {
	l := newLab(t)
	p := startAB(l, "go.example.com")
	hello := hellos.Find("go-1.26-pq").Bytes
	var flights [][][]byte
	for i := 1; i < len(hello); i++ {
		flights = append(flights, [][]byte{hello[:i], hello[i:]})
	}
	base := p.counts()
	askAll(p, 5*time.Millisecond, digest("route", hello), flights)
	p.settle(base, len(flights), counts{"routed_total": float64(len(flights))})
	p.quiet()
}

func TestHelloInSingleBytes(t *testing.T) {
	p := startAB(newLab(t), "drip.test")
	message := hellos.Message(hellos.Options{ServerName: "drip.test", ALPN: []string{"h2", "http/1.1"}})
	wire := hellos.Wrap(message)
	small := hellos.Wrap(message, 1)
	base := p.counts()
	for _, tc := range []struct {
		name  string
		hello []byte
		size  int
		pause time.Duration
	}{
		{"T16_writes_of_one_byte", wire, 1, time.Millisecond},
		{"writes_of_one_byte_without_pause", wire, 1, 0},
		{"records_of_one_byte", small, len(small), 0},
		{"records_of_one_byte_in_a_write_each", small, 6, time.Millisecond},
		{"records_of_one_byte_cut_in_their_headers", small, 5, time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var parts [][]byte
			for rest := tc.hello; len(rest) > 0; rest = rest[min(tc.size, len(rest)):] {
				parts = append(parts, rest[:min(tc.size, len(rest))])
			}
			want := digest("route", tc.hello)
			if got, err := p.ask(tc.pause, parts...); err != nil || got != want {
				t.Errorf("answer: got %q, %v, want %q", got, err, want)
			}
		})
	}
	p.settle(base, 5, counts{"routed_total": 5})
}

func TestHelloSizesAndRecords(t *testing.T) {
	p := startAB(newLab(t), "size.test")
	pad := func(size int, records ...int) []byte {
		return hellos.Wrap(hellos.Message(hellos.Options{ServerName: "size.test", Pad: size}), records...)
	}
	for _, tc := range []struct {
		name  string
		hello []byte
	}{
		{"T18_two_records", pad(200, 60)},
		{"cut_in_the_name", pad(200, 60, 3, 200)},
		{"empty_record_first", append(hellos.Record(hellos.TypeHandshake, 0x0301, nil), pad(200)...)},
		{"T19_1025_bytes", pad(1025)},
		{"T19_4_KiB", pad(4096)},
		{"a_full_record", pad(hellos.MaxRecord)},
		{"more_than_a_record", pad(18503)},
		{"T19_32_KiB_less_the_record_headers", pad(32<<10 - 10)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := digest("route", tc.hello)
			if got, err := p.ask(0, tc.hello); err != nil || got != want {
				t.Errorf("answer: got %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestRecordedHellos(t *testing.T) {
	var names []string
	seen := make(map[string]bool)
	for _, rec := range hellos.Recorded() {
		if rec.ServerName != "" && !seen[rec.ServerName] {
			seen[rec.ServerName] = true
			names = append(names, rec.ServerName)
		}
	}
	p := startAB(newLab(t), names...)
	base, routed, unnamed := p.counts(), 0, 0
	for _, rec := range hellos.Recorded() {
		t.Run(rec.Name, func(t *testing.T) {
			tag := "route"
			if rec.ServerName == "" {
				tag = "fallback"
				unnamed++
			} else {
				routed++
			}
			data := pattern(1000)
			want := digest(tag, rec.Bytes, data)
			if got, err := p.ask(0, append(slices.Clip(rec.Bytes), data...)); err != nil || got != want {
				t.Errorf("answer: got %q, %v, want %q", got, err, want)
			}
		})
	}
	p.settle(base, routed+unnamed, counts{"routed_total": float64(routed), fallback("no_sni"): float64(unnamed)})
}

// TestCatchAllIsNoRace has a route for one name and a catch-all, the config in which other routers let the way the
// client cuts its hello decide.
func TestCatchAllIsNoRace(t *testing.T) {
	p := startAB(newLab(t), "a.test")
	ours := hellos.New(hellos.Options{ServerName: "a.test", Pad: 1500})
	theirs := hellos.New(hellos.Options{ServerName: "z.test", Pad: 1500})
	for _, tc := range []struct {
		name  string
		tag   string
		pause time.Duration
		parts [][]byte
	}{
		{"in_two_parts", "route", 60 * time.Millisecond, [][]byte{ours[:700], ours[700:]}},
		{"after_silence", "route", 300 * time.Millisecond, [][]byte{nil, ours}},
		{"other_name_in_two_parts", "fallback", 60 * time.Millisecond, [][]byte{theirs[:700], theirs[700:]}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := digest(tc.tag, tc.parts...)
			if got, err := p.ask(tc.pause, tc.parts...); err != nil || got != want {
				t.Errorf("answer: got %q, %v, want %q", got, err, want)
			}
		})
	}
}
