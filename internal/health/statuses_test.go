package health

import (
	"strings"
	"testing"
)

// TestParseStatuses checks which codes a list stands for, at the edges of each entry.
func TestParseStatuses(t *testing.T) {
	for _, tc := range []struct {
		list      string
		has, lack []int
	}{
		{"", nil, []int{100, 200, 500, 599}},
		{"503", []int{503}, []int{502, 504}},
		{"5xx", []int{500, 599}, []int{499}},
		{"1xx", []int{100, 199}, []int{200}},
		{"500-503", []int{500, 501, 503}, []int{499, 504}},
		{"404-404", []int{404}, []int{403, 405}},
		{"100-599", []int{100, 599}, nil},
		{"429 5xx 200-299", []int{429, 500, 599, 200, 299}, []int{300, 428, 430, 499}},
		{"5xx 503", []int{503}, nil},
	} {
		t.Run(tc.list, func(t *testing.T) {
			s, err := ParseStatuses(strings.Fields(tc.list))
			if err != nil {
				t.Fatal(err)
			}
			for _, code := range tc.has {
				if !s.Has(code) {
					t.Errorf("got a set without %d, want one with it", code)
				}
			}
			for _, code := range tc.lack {
				if s.Has(code) {
					t.Errorf("got a set with %d, want one without it", code)
				}
			}
		})
	}
}

// TestParseStatusesRefuses checks that what is no status is refused with its place in the list.
func TestParseStatusesRefuses(t *testing.T) {
	for _, text := range []string{
		"", "0", "99", "600", "6xx", "0xx", "5x", "xx", "5XX", "5xxx", "55xx", "+50", "+5xx", "-5xx", "0500", "503.0", " 503", "503-", "-503",
		"500-600", "99-200", "500-5xx", "5xx-599", "500-503-504", "503-500", "any",
	} {
		if _, err := ParseStatuses([]string{"200", text}); err == nil || !strings.Contains(err.Error(), `[1]: "`+text+`"`) {
			t.Errorf("%q: got error %v, want one that begins with its place and names it", text, err)
		}
	}
}
