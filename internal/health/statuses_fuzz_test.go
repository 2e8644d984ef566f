package health

import (
	"fmt"
	"testing"
)

// FuzzParseStatuses checks that an entry that is read is one run of codes, which is read again when it is written as a
// range.
func FuzzParseStatuses(f *testing.F) {
	for _, text := range []string{"503", "5xx", "500-503", "100-599", "0xx", "-", "599-600"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStatuses([]string{text})
		if err != nil {
			if s != (StatusSet{}) {
				t.Errorf("got %v with an error", s)
			}
			return
		}
		first, last := maxStatus+1, 0
		for code := minStatus; code <= maxStatus; code++ {
			if s.Has(code) {
				first, last = min(first, code), max(last, code)
			}
		}
		again, err := ParseStatuses([]string{fmt.Sprintf("%d-%d", first, last)})
		if err != nil || again != s {
			t.Errorf("got %v, %v from %d-%d, want %v", again, err, first, last, s)
		}
	})
}
