//go:build race

package balance

// churns is a tenth of what it is elsewhere: the race detector makes each pick ten times as slow, and sees a race that
// happens once as well as one that happens often.
const churns = 10_000
