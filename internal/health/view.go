package health

import (
	"math/bits"
	"slices"
	"time"
)

// WeightScale is what a weight of 1 is in View.Effective. MaxWeight in this scale fits 32 bits.
const WeightScale = 1000

// Stance is how a cluster takes the number of endpoints that are available.
type Stance uint8

const (
	// Normal offers the endpoints that are available.
	Normal Stance = iota
	// FailOpen offers all of a tier that weren't taken out by hand, and trials: too few are available.
	FailOpen
	// Refusing offers none, for the same reason, except for trials.
	Refusing
	// Empty has none that could be offered.
	Empty
	stanceCount
)

// stanceNames has a name for each stance.
var stanceNames = [stanceCount]string{"normal", "fail_open", "refusing", "empty"}

// String returns the name of the stance; "unknown" for a value that is none.
func (s Stance) String() string {
	if s >= stanceCount {
		return "unknown"
	}
	return stanceNames[s]
}

// none is the place of no endpoint.
const none = -1

// bitmap is a set of small numbers.
type bitmap []uint64

func newBitmap(n int) bitmap    { return make(bitmap, (n+63)/64) }
func (b bitmap) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bitmap) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitmap) count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// View is which endpoints are offered at a time, and with which weights. It never changes. Endpoints have the numbers of
// the members given to Cluster.SetMembers.
type View struct {
	endpoints []*Endpoint
	offered   bitmap
	// trials are those of the offered and of the spares that are there for one attempt only; nil if there are none.
	trials bitmap
	// spares are available, or there for a trial, but of a tier after the one that serves; nil if there are none.
	spares bitmap
	// turn is the endpoint that is to get the next attempt, for its trial; none if it doesn't matter.
	turn int
	// serving is an endpoint of the tier that serves; none if none does.
	serving int
	// effective has the weights of all endpoints.
	effective          []uint32
	available, offers  int
	spare              int
	stance             Stance
	version, listStamp uint64
	// until is when the view is to be made anew; zero if time alone doesn't change it.
	until time.Time
}

// Len returns the number of endpoints, offered or not.
func (v *View) Len() int { return len(v.endpoints) }

// Endpoint returns an endpoint.
func (v *View) Endpoint(i int) *Endpoint { return v.endpoints[i] }

// Index returns the number of an endpoint; -1 if the view doesn't have it. It looks at each.
func (v *View) Index(e *Endpoint) int { return slices.Index(v.endpoints, e) }

// Offers says whether an endpoint is offered.
func (v *View) Offers(i int) bool { return v.offered.has(i) }

// Offered returns how many endpoints are offered.
func (v *View) Offered() int { return v.offers }

// Yields says whether an offered endpoint is to be chosen only if another one can't be, whose turn for a trial it is. Where
// too few endpoints are available, nothing else would see to it that each one gets its trial.
func (v *View) Yields(i int) bool { return v.turn != none && i != v.turn }

// Spares says whether an endpoint is in reserve: it is available, or its trial is due, and it is of a tier after the one that
// serves. It is for requests that have failed at each of those that are offered.
func (v *View) Spares(i int) bool { return v.spares != nil && v.spares.has(i) }

// Spare returns how many endpoints are in reserve.
func (v *View) Spare() int { return v.spare }

// Serving returns an endpoint of the tier that serves; -1 if none does. It needn't be offered itself.
func (v *View) Serving() int { return v.serving }

// Bits returns the offered endpoints: endpoint i is bit i%64 of word i/64. The caller doesn't change it.
func (v *View) Bits() []uint64 { return v.offered }

// Effective returns the weight by which an endpoint is chosen, in units of 1/WeightScale. It is never 0.
func (v *View) Effective(i int) uint32 { return v.effective[i] }

// Weights returns the weights of all endpoints. It is the same slice in two views if no weight differs. The caller doesn't
// change it.
func (v *View) Weights() []uint32 { return v.effective }

// Available returns how many endpoints are available, in all tiers.
func (v *View) Available() int { return v.available }

// Stance returns how the cluster takes that.
func (v *View) Stance() Stance { return v.stance }

// Version differs between any two views of a cluster.
func (v *View) Version() uint64 { return v.version }

// Members is the same for two views if they have the same endpoints in the same order.
func (v *View) Members() uint64 { return v.listStamp }

// Until returns when the view ends of itself; zero if it doesn't.
func (v *View) Until() time.Time { return v.until }

// due says whether the view has ended.
func (v *View) due(now time.Time) bool { return !v.until.IsZero() && !now.Before(v.until) }
