package health

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseStatuses returns the set of the statuses that are listed: codes such as `503`, classes such as `5xx`, ranges such
// as `500-503`.
func ParseStatuses(list []string) (s StatusSet, err error) {
	for i, text := range list {
		first, last, err := parseStatuses(text)
		if err != nil {
			return StatusSet{}, fmt.Errorf("[%d]: %w", i, err)
		}
		s.Add(first, last)
	}
	return s, nil
}

// parseStatuses reads an entry of the list.
func parseStatuses(text string) (first, last int, err error) {
	if class, ok := strings.CutSuffix(text, "xx"); ok {
		first, ok = parseStatus(class + "00")
		if !ok {
			return 0, 0, statusError(text)
		}
		return first, first + 99, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	first, ok := parseStatus(from)
	if !ok {
		return 0, 0, statusError(text)
	}
	if !isRange {
		return first, first, nil
	}
	if last, ok = parseStatus(to); !ok {
		return 0, 0, statusError(text)
	}
	if last < first {
		return 0, 0, fmt.Errorf("%q: the range ends before it begins", text)
	}
	return first, last, nil
}

// parseStatus reads a code: three digits.
func parseStatus(text string) (code int, ok bool) {
	code, err := strconv.Atoi(text)
	return code, err == nil && len(text) == 3 && code >= minStatus && code <= maxStatus
}

func statusError(text string) error {
	return fmt.Errorf("%q: must be a status from %d to %d, a class such as 5xx, or a range such as 500-503", text, minStatus, maxStatus)
}
