package pressure

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Amount is a number, or a share of a total that is known later. The zero value is 0.
type Amount struct {
	number  uint64
	percent float64
}

// ParseSize reads a number of bytes, such as 2GiB, or a share, such as 80%. Both are more than 0, a share is at most all.
func ParseSize(text string) (Amount, error) {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		return parseShare(text, share, 100)
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return Amount{}, fmt.Errorf("%q is neither a size, such as 2GiB, nor a share, such as 80%%", text)
	}
	return Amount{number: n}, nil
}

// maxReserve is the largest share, in percent, that may be kept free: a process has files open for itself too.
const maxReserve = 50

// ParseCount reads a number, which may be 0, or a share, such as 5%, of half at most.
func ParseCount(text string) (Amount, error) {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		return parseShare(text, share, maxReserve)
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return Amount{}, fmt.Errorf("%q is neither a number nor a share, such as 5%%", text)
	}
	return Amount{number: n}, nil
}

func parseShare(text, share string, most float64) (Amount, error) {
	percent, err := strconv.ParseFloat(share, 64)
	if err != nil || math.IsNaN(percent) {
		return Amount{}, fmt.Errorf("%q is no share, such as 5%%", text)
	}
	if percent <= 0 || percent > most {
		return Amount{}, fmt.Errorf("%q is out of range, more than 0%% to %v%%", text, most)
	}
	return Amount{percent: percent}, nil
}

// IsShare says whether the amount depends on a total.
func (a Amount) IsShare() bool { return a.percent > 0 }

// Of returns the amount, if need be of this total.
func (a Amount) Of(total uint64) uint64 {
	if a.IsShare() {
		return uint64(float64(total) / 100 * a.percent)
	}
	return a.number
}

// minReserve is how many files a share keeps free at least: those for certificates, name lookups, logs and the admin
// endpoint.
const minReserve = 64

// Reserve returns how many files to keep free of a limit. A share is never less than 64, unless that is more than half of
// the limit.
func (a Amount) Reserve(limit uint64) uint64 {
	n := a.Of(limit)
	if a.IsShare() {
		n = min(max(n, minReserve), limit/2)
	}
	return n
}
