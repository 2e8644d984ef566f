package cluster

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/caddy-sluice/sluice/internal/health"
)

// maxCause is how much of the text of an error is kept for each endpoint, in bytes: an address and what went wrong there.
const maxCause = 200

// failure is what an attempt has failed with.
type failure struct {
	outcome Outcome
	// text is that of the error, clipped; empty if nobody has given one.
	text string
}

// note keeps an outcome for those who ask why the endpoint is unhealthy.
func (e *Endpoint) note(o Outcome, text string) {
	if o.Kind == health.Answer && o.Status < 500 || o.Kind == health.Stale || o.Kind == health.Aborted {
		return
	}
	e.lastFailure.Store(&failure{o, text})
}

// cause says what was seen last that speaks against the endpoint; empty if it is available, or out by hand. It begins with
// one word of a few: `check`, or the kind of the failure.
func (e *Endpoint) cause(reason health.Reason) string {
	switch reason {
	case health.UnhealthyActive:
		if last := e.lastCheck.Load(); last != nil && last.err != nil {
			return "check: " + clip(last.err.Error())
		}
	case health.UnhealthyPassive, health.Ejected:
		if last := e.lastFailure.Load(); last != nil {
			return last.describe()
		}
	}
	return ""
}

// describe says what a failure was.
func (f *failure) describe() string {
	kind := f.outcome.Kind.String()
	switch {
	case f.outcome.Kind == health.Answer:
		return fmt.Sprintf("%s: status %d", kind, f.outcome.Status)
	case f.text == "":
		return kind
	}
	return kind + ": " + f.text
}

// clip returns a copy of what fits of a text, in whole characters.
func clip(text string) string {
	if len(text) <= maxCause {
		return text
	}
	const dots = "…"
	end := maxCause - len(dots)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + dots
}
