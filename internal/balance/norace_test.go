//go:build !race

package balance

// churns is how often each of 64 workers picks and releases.
const churns = 100_000
