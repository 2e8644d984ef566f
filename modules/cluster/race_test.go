//go:build race

package cluster

// raceDetector says that the race detector is on.
const raceDetector = true
