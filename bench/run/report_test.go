package main

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

func TestBarMet(t *testing.T) {
	tests := []struct {
		name       string
		got, limit float64
		want       bool
	}{
		{"below", 0.4, 0.5, true},
		{"equal", 0.5, 0.5, true},
		{"above", 0.501, 0.5, false},
		{"not measured", math.NaN(), 0.5, false},
		{"infinite", math.Inf(1), 0.5, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := bar{"x", tt.got, tt.limit}
			if got := b.met(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			var out strings.Builder
			passed := printBars(&out, []section{{title: "s", bars: []bar{{"good", 0, 1}, b}}})
			if failed := strings.Contains(out.String(), "**fail**"); passed != tt.want || failed == tt.want {
				t.Errorf("got passed %v and\n%swant %v", passed, out.String(), tt.want)
			}
		})
	}
}

func TestSectionPrint(t *testing.T) {
	jobs := []load.Job{{Target: load.Target{Name: "ours"}}, {Target: load.Target{Name: "theirs"}}}
	samples := []load.Sample{
		{CPU: []float64{3e-9, 1e-9, 2e-9}, Rate: []float64{5e8}, UserShare: []float64{0.25}},
		{CPU: []float64{40e-9}, Rate: []float64{1e8}, UserShare: []float64{0.5}, Failed: 2, Err: errors.New("refused")},
	}
	s := newSection("bulk", perGigabyte, jobs, samples)
	var out strings.Builder
	s.print(&out)
	want := `### bulk

| proxy | CPU s/GB | min | max | user % | MB/s | failed |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| ours | 2.000 | 1.000 | 3.000 | 25 | 500 | 0 |
| theirs | 40.0 | 40.0 | 40.0 | 50 | 100 | 2 |

`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if got := cpuBar("x", samples[0], samples[1], 1).got; math.Abs(got-0.05) > 1e-12 {
		t.Errorf("ratio: got %v, want 0.05", got)
	}
	if err := check(jobs, samples); err == nil || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("check: got %v, want an error that names theirs", err)
	}
	if err := check(jobs[:1], samples[:1]); err != nil {
		t.Errorf("check without failures: got %v, want nil", err)
	}
}

func TestIdleSection(t *testing.T) {
	results := make([][]load.IdleResult, len(idleProxies))
	results[0] = []load.IdleResult{{RSS: 10 << 10, Descriptors: 2}, {RSS: 12 << 10, Descriptors: 2}, {RSS: 30 << 10, Descriptors: 2}}
	s := idleSection(results)
	if got := s.bars[0].got; got != 12 || !s.bars[0].met() || !s.bars[1].met() {
		t.Errorf("got %+v, want a median of 12 KiB and both bars met", s.bars)
	}
	if got, want := len(s.rows), len(idleProxies); got != want {
		t.Errorf("got %d rows, want %d", got, want)
	}
}

func TestChoose(t *testing.T) {
	if got, err := choose(""); len(got) != len(scenarios) || err != nil {
		t.Errorf("none: got %d scenarios, %v, want all", len(got), err)
	}
	got, err := choose("rate,bulk")
	if err != nil || len(got) != 2 || got[0].name != "rate" || got[1].name != "bulk" {
		t.Errorf("rate,bulk: got %v, %v, want these two in order", got, err)
	}
	if _, err := choose("rate,x"); err == nil {
		t.Error("unknown: got no error")
	}
}
