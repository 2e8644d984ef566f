package bodypipe

import (
	"errors"
	"fmt"
	"testing"
)

// teapot is a Refusal with an answer of its own, as a shell has it.
type teapot struct{ body string }

func (teapot) Error() string      { return "short and stout" }
func (teapot) RefusalStatus() int { return 418 }

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		err               error
		request, response int
	}{
		{ErrTooLarge, 413, 502},
		{fmt.Errorf("reading: %w", ErrTooLarge), 413, 502},
		{ErrBudget, 503, 503},
		{ErrReadOnly, 500, 500},
		{ErrEnded, 500, 500},
		{errors.New("filter broke"), 500, 500},
		{Refuse(403), 403, 403},
		{fmt.Errorf("filter: %w", Refuse(451)), 451, 451},
		{teapot{"tea"}, 418, 418},
	} {
		if got := RequestStatus(tt.err); got != tt.request {
			t.Errorf("request: %v: got %d, want %d", tt.err, got, tt.request)
		}
		if got := ResponseStatus(tt.err); got != tt.response {
			t.Errorf("response: %v: got %d, want %d", tt.err, got, tt.response)
		}
	}
	if got := Refuse(403).Error(); got != "refused by a filter with status 403" {
		t.Errorf("got %q", got)
	}
}
