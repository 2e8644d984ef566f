package pipeline

import (
	"maps"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
)

// counted are the metrics at one moment.
type counted struct{ counts.Counts }

// countNow returns the metrics as they are.
func countNow(t *testing.T) counted {
	t.Helper()
	return counted{counts.Of(t, register)}
}

// expect checks that each of the reasons was counted since, once for each time that it is named, and nothing else.
func (c counted) expect(t *testing.T, reasons ...string) {
	t.Helper()
	want := make(counts.Counts)
	for _, reason := range reasons {
		want[reason]++
	}
	got := make(counts.Counts)
	for name, n := range countNow(t).Since(c.Counts) {
		got[name[strings.LastIndexByte(name, ' ')+1:]] += n
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v counted, want %v", got, want)
	}
}
