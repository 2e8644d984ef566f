package pipeline

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// placed is an entry, with the place in the config that has it.
type placed struct {
	Entry
	where string
}

// expand puts the filters of chains in their place. Each handler has its own copies of them.
func expand(entries []Entry, app *sluiceapp.App) ([]placed, error) {
	var all []placed
	for i := range entries {
		e, where := &entries[i], fmt.Sprintf("filters[%d]", i)
		if e.Chain == "" {
			all = append(all, placed{*e, where})
			continue
		}
		if !e.isChain() {
			return nil, fmt.Errorf("%s: chain: it stands alone, without any other field", where)
		}
		chain, err := app.FilterChain(e.Chain)
		if err != nil {
			return nil, fmt.Errorf("%s: chain: %w", where, err)
		}
		for j, raw := range chain {
			where := fmt.Sprintf("%s: filter_chains.%s[%d]", where, e.Chain, j)
			inner, err := decode(raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			all = append(all, placed{inner, where})
		}
	}
	return all, nil
}

// decode reads an entry of a chain. The app has made sure that it is no chain itself.
func decode(raw json.RawMessage) (e Entry, err error) {
	err = caddy.StrictUnmarshalJSON(raw, &e)
	return e, err
}

// isChain reports whether nothing but a chain is set.
func (e *Entry) isChain() bool {
	return e.Name == "" && e.FilterRaw == nil && e.Conditions == nil && e.OnResponse == nil && e.FailureMode == "" &&
		e.Branches == nil
}
