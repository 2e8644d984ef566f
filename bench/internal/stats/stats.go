// Package stats has the few sums that a benchmark needs: medians, spreads and percentiles of small samples.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Summary is the middle and the ends of a sample.
type Summary struct {
	Median, Min, Max float64
}

// Summarize returns the summary of values, which it leaves as they are. An empty sample is all NaN, so that a missing
// measurement can never pass a comparison.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Summary{median, sorted[0], sorted[len(sorted)-1]}
}

// Ratio returns the median of a divided by the median of b; NaN if either sample is empty or b's median is zero.
func Ratio(a, b []float64) float64 {
	divisor := Summarize(b).Median
	if divisor == 0 {
		return math.NaN()
	}
	return Summarize(a).Median / divisor
}

// Percentile returns the value below which p percent of the sorted sample lie, and the zero value for an empty one.
func Percentile[T cmp.Ordered](sorted []T, p int) T {
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}
