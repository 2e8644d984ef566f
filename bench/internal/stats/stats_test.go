package stats

import (
	"math"
	"slices"
	"testing"
)

func TestSummarize(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"one", []float64{3}, Summary{3, 3, 3}},
		{"odd, unsorted", []float64{9, 1, 4}, Summary{4, 1, 9}},
		{"even takes the mean of the middle pair", []float64{8, 1, 2, 4}, Summary{3, 1, 8}},
		{"an outlier does not move the median", []float64{1, 2, 3, 4, 1000}, Summary{3, 1, 1000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.values)
			if got := Summarize(tt.values); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !slices.Equal(tt.values, before) {
				t.Errorf("the sample was reordered: got %v, want %v", tt.values, before)
			}
		})
	}
	if got := Summarize(nil).Median; !math.IsNaN(got) {
		t.Errorf("empty sample: got %v, want NaN", got)
	}
}

func TestRatio(t *testing.T) {
	if got := Ratio([]float64{1, 2, 9}, []float64{4, 4, 4}); got != 0.5 {
		t.Errorf("got %v, want 0.5", got)
	}
	for name, samples := range map[string][2][]float64{
		"no numerator": {nil, {1}}, "no divisor": {{1}, nil}, "zero divisor": {{1}, {0}},
	} {
		if got := Ratio(samples[0], samples[1]); !math.IsNaN(got) {
			t.Errorf("%s: got %v, want NaN", name, got)
		}
	}
}

func TestPercentile(t *testing.T) {
	sorted := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for p, want := range map[int]int{0: 1, 50: 6, 99: 10, 100: 10} {
		if got := Percentile(sorted, p); got != want {
			t.Errorf("p%d: got %v, want %v", p, got, want)
		}
	}
	if got := Percentile([]int(nil), 50); got != 0 {
		t.Errorf("empty: got %v, want 0", got)
	}
}
