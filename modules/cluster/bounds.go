package cluster

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const (
	// shortest is the shortest time that anything may take: less is within what a scheduler adds.
	shortest = time.Millisecond
	// longest is the longest: whoever wants more than a day wants no limit.
	longest = 24 * time.Hour
)

// duration is a setting: what is configured, where it goes, the shortest that it may be, and what it is by default.
type duration struct {
	name     string
	value    caddy.Duration
	to       *time.Duration
	low      time.Duration
	fallback time.Duration
}

// takeDurations checks settings, and sets what they are for. 0 stands for the default.
func takeDurations(list ...duration) error {
	for _, d := range list {
		*d.to = time.Duration(d.value)
		if d.value == 0 {
			*d.to = d.fallback
		} else if *d.to < d.low || *d.to > longest {
			return fmt.Errorf("%s: %v is out of range, %v to 1d", d.name, *d.to, d.low)
		}
	}
	return nil
}

// number is a setting: what is configured, where it goes, its range, and what it is by default.
type number struct {
	name      string
	value     *int
	to        *int
	low, high int
	fallback  int
}

// takeNumbers checks settings, and sets what they are for.
func takeNumbers(list ...number) error {
	for _, n := range list {
		*n.to = n.fallback
		if n.value == nil {
			continue
		}
		if *n.to = *n.value; *n.to < n.low || *n.to > n.high {
			return fmt.Errorf("%s: %d is out of range, %d to %d", n.name, *n.to, n.low, n.high)
		}
	}
	return nil
}
