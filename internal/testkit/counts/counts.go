// Package counts reads metrics in tests.
package counts

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts are the values of metrics, by name with the values of their labels behind it, separated by spaces. A
// histogram's value is the number of its observations.
type Counts map[string]float64

// Of returns what the collectors have that register adds to a registry.
func Of(t testing.TB, register func(prometheus.Registerer) error) Counts {
	t.Helper()
	reg := prometheus.NewRegistry()
	if err := register(reg); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	c := make(Counts)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			words := []string{family.GetName()}
			for _, label := range m.GetLabel() {
				words = append(words, label.GetValue())
			}
			c[strings.Join(words, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return c
}

// Since returns what has changed.
func (c Counts) Since(before Counts) Counts {
	diff := make(Counts)
	for name, value := range c {
		if d := value - before[name]; d != 0 {
			diff[name] = d
		}
	}
	return diff
}
