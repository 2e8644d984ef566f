package pipeline

import (
	"encoding/json"
	"errors"
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

// decode reads an entry of a chain.
func decode(raw json.RawMessage) (e Entry, err error) {
	if err := caddy.StrictUnmarshalJSON(raw, &e); err != nil {
		return e, err
	}
	if e.Chain != "" {
		return e, errors.New("chain: a chain can't have a chain in it")
	}
	return e, nil
}

// isChain reports whether nothing but a chain is set.
func (e *Entry) isChain() bool {
	return e.Name == "" && e.FilterRaw == nil && e.Conditions == nil && e.OnResponse == nil && e.FailureMode == "" &&
		e.Branches == nil
}
