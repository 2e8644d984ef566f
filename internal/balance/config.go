package balance

import (
	"errors"
	"fmt"
	"strings"
)

// Limits and defaults of the options.
const (
	// MaxWeight is the largest weight that can be configured or ordered: the largest that a DNS SRV record can carry.
	MaxWeight = 65535
	// maxFoundWeight is the largest weight of a set: that of a record beside one of weight 0 counts sixteenfold.
	maxFoundWeight = 1 << 20
	// MaxEndpoints is how many endpoints a set can have: tables hold 16-bit numbers, one of which means "free".
	MaxEndpoints = 65535
	// DefaultTableSize is a prime that leaves 100 slots to each of 655 endpoints. The table takes 128 KiB.
	DefaultTableSize = 65537
	// MaxTableSize is the largest table: a prime, for tables of 10 MB.
	MaxTableSize = 5_000_011
	// DefaultRingPoints is the customary number of points for each unit of weight.
	DefaultRingPoints = 160
	// MaxRingPoints is the largest number of points for each unit of weight. Shares are within some 2 % then.
	MaxRingPoints = 16384
	// MaxRingSize is how many points a ring has at most. A full ring takes 150 MB.
	MaxRingSize = 8 << 20
	// MinBalanceFactor and MaxBalanceFactor are percentages. Below 100 % there may be no endpoint that has room.
	MinBalanceFactor = 100
	MaxBalanceFactor = 10_000
)

// Errors of a configuration or of a list of endpoints. They come wrapped with the field at fault.
var (
	ErrPolicy   = errors.New("unknown policy")
	ErrOption   = errors.New("invalid option")
	ErrEndpoint = errors.New("invalid endpoint")
)

// Policy is a way to choose among endpoints.
type Policy uint8

// The policies. The zero value is the default.
const (
	// P2C draws two distinct endpoints by weight and takes the one with less load for its weight.
	P2C Policy = iota
	// RoundRobin is smooth weighted round robin, as nginx has it: each has its share in every round, spread evenly.
	RoundRobin
	// LeastConnections takes the endpoint with the least load for its weight. Ties are drawn by weight.
	LeastConnections
	// Random draws one endpoint by weight.
	Random
	// Maglev looks a key up in a table that is filled by weight. Shares are even, few keys move with a change.
	Maglev
	// RingHash looks a key up on a ring of points. With a change only the keys move that have to.
	RingHash
	// First takes the first endpoint that is available.
	First
)

var policyNames = [...]string{"p2c", "round_robin", "least_connections", "random", "maglev", "ring_hash", "first"}

// ParsePolicy returns the policy of a name.
func ParsePolicy(name string) (Policy, error) {
	for i, known := range policyNames {
		if name == known {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("policy %q: %w: want one of %s", name, ErrPolicy, strings.Join(policyNames[:], ", "))
}

// String returns the name of the policy.
func (p Policy) String() string {
	if int(p) >= len(policyNames) {
		return fmt.Sprintf("policy(%d)", uint8(p))
	}
	return policyNames[p]
}

// MarshalText returns the name of the policy.
func (p Policy) MarshalText() ([]byte, error) {
	if int(p) >= len(policyNames) {
		return nil, fmt.Errorf("policy %d: %w", uint8(p), ErrPolicy)
	}
	return []byte(policyNames[p]), nil
}

// UnmarshalText reads the name of a policy. No text is the default.
func (p *Policy) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*p = P2C
		return nil
	}
	*p, err = ParsePolicy(string(text))
	return err
}

// Keyed says whether the policy chooses by a key.
func (p Policy) Keyed() bool { return p == Maglev || p == RingHash }

// Ramps says whether the policy heeds the share of its weight that an endpoint is held to. The others ignore it, so that
// a slow start means nothing to them.
func (p Policy) Ramps() bool { return !p.Keyed() && p != First }

// Config is a policy with its options. The zero value is P2C. An option of another policy is refused.
type Config struct {
	// Which policy chooses. Default: `p2c`.
	Policy Policy `json:"policy,omitempty"`
	// How many slots the table of `maglev` has: a prime from 2 to 5000011, no less than there are endpoints.
	// Default: 65537.
	TableSize int `json:"table_size,omitempty"`
	// How many points `ring_hash` gives an endpoint for each unit of its weight: 1 to 16384. Default: 160. A ring that
	// would have more than 8388608 points gets half as many, and half again, until it hasn't.
	RingPoints int `json:"ring_points,omitempty"`
	// How many percent of the mean load for its weight an endpoint may have before `maglev` and `ring_hash` go on to
	// the next: 100 to 10000. Default: 0, no bound. With a bound each pick looks at all endpoints.
	BalanceFactor int `json:"balance_factor,omitempty"`
}

// Validate says what is wrong with the options.
func (c Config) Validate() error {
	if int(c.Policy) >= len(policyNames) {
		return fmt.Errorf("policy %d: %w", uint8(c.Policy), ErrPolicy)
	}
	for _, option := range []struct {
		name      string
		value     int
		ours      bool
		low, high int
	}{
		{"table_size", c.TableSize, c.Policy == Maglev, 2, MaxTableSize},
		{"ring_points", c.RingPoints, c.Policy == RingHash, 1, MaxRingPoints},
		{"balance_factor", c.BalanceFactor, c.Policy.Keyed(), MinBalanceFactor, MaxBalanceFactor},
	} {
		switch {
		case option.value == 0:
		case !option.ours:
			return fmt.Errorf("%s %d: %w: %s does not have it", option.name, option.value, ErrOption, c.Policy)
		case option.value < option.low || option.value > option.high:
			return fmt.Errorf("%s %d: %w: want %d to %d", option.name, option.value, ErrOption, option.low, option.high)
		}
	}
	if c.TableSize != 0 && !isPrime(c.TableSize) {
		return fmt.Errorf("table_size %d: %w: want a prime, such as %d", c.TableSize, ErrOption, DefaultTableSize)
	}
	return nil
}

// withDefaults returns the configuration with each option of its policy filled in.
func (c Config) withDefaults() Config {
	if c.Policy == Maglev && c.TableSize == 0 {
		c.TableSize = DefaultTableSize
	}
	if c.Policy == RingHash && c.RingPoints == 0 {
		c.RingPoints = DefaultRingPoints
	}
	return c
}

// Coarse says whether a table of `maglev` is so small for a number of endpoints that shares are off by more than 1 %:
// it has less than 100 slots for each.
func (c Config) Coarse(endpoints int) bool {
	return c.Policy == Maglev && c.withDefaults().TableSize/100 < endpoints
}

func isPrime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}
