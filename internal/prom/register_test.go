package prom

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func newCounter(name, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "A counter."}, []string{label})
}

// TestRegister checks that one collector can be in several registries, and in one of them several times, with one
// count.
func TestRegister(t *testing.T) {
	a, b := newCounter("a_total", "x"), newCounter("b_total", "x")
	regs := []*prometheus.Registry{prometheus.NewRegistry(), prometheus.NewPedanticRegistry()}
	for _, reg := range regs {
		if err := Register(reg, a); err != nil {
			t.Fatal(err)
		}
		if err := Register(reg, a, b); err != nil {
			t.Fatal(err)
		}
	}
	a.WithLabelValues("1").Inc()
	b.WithLabelValues("1").Inc()
	for i, reg := range regs {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if len(families) != 2 {
			t.Fatalf("registry %d: got %d metrics, want 2", i, len(families))
		}
		for _, family := range families {
			if got := family.GetMetric()[0].GetCounter().GetValue(); got != 1 {
				t.Errorf("registry %d: %s: got %v, want 1", i, family.GetName(), got)
			}
		}
	}
}

// TestRegisterConflict checks that a collector which contradicts another is an error.
func TestRegisterConflict(t *testing.T) {
	reg := prometheus.NewRegistry()
	if err := Register(reg, newCounter("a_total", "x")); err != nil {
		t.Fatal(err)
	}
	err := Register(reg, newCounter("a_total", "y"))
	if err == nil || !strings.HasPrefix(err.Error(), "registering metrics: ") {
		t.Errorf("got error %v, want one about registering metrics", err)
	}
}
