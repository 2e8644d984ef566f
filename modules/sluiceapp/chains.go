package sluiceapp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// maxChainName is the longest name of a chain, as that of a filter.
const maxChainName = 64

// checkChains says what is wrong with chains whatever the filters in them are.
func (a *App) checkChains() error {
	for _, name := range slices.Sorted(maps.Keys(a.FilterChains)) {
		if !isChainName(name) {
			return fmt.Errorf("filter_chains: name %q must have 1 to %d letters, digits, _ and -", name, maxChainName)
		}
		if err := checkChain(a.FilterChains[name]); err != nil {
			return fmt.Errorf("filter_chains.%s%w", name, err)
		}
	}
	return nil
}

// checkChain says what is wrong with a chain, behind its name.
func checkChain(entries []json.RawMessage) error {
	if len(entries) == 0 {
		return errors.New(": there is no filter in it")
	}
	for i, raw := range entries {
		var e chainEntry
		if err := caddy.StrictUnmarshalJSON(raw, &e); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		if err := e.check(); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

// chainEntry has the fields of a filter in a chain, as handlers know them. What stands in most of them is for the handler
// that uses the chain to judge, with the filter that it is about.
type chainEntry struct {
	Filter      json.RawMessage `json:"filter"`
	Chain       string          `json:"chain"`
	Name        string          `json:"name"`
	FailureMode string          `json:"failure_mode"`
	Conditions  []struct {
		When   json.RawMessage `json:"when"`
		Unless json.RawMessage `json:"unless"`
	} `json:"conditions"`
	OnResponse []json.RawMessage `json:"on_response"`
	Branches   []json.RawMessage `json:"branches"`
}

// check says what is wrong with an entry, whoever uses it.
func (e *chainEntry) check() error {
	switch {
	case e.Chain != "":
		return errors.New("chain: a chain can't have a chain in it")
	case e.Filter == nil:
		return errors.New("filter: missing")
	}
	var filter struct {
		Name string `json:"filter"`
	}
	if err := json.Unmarshal(e.Filter, &filter); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if filter.Name == "" {
		return errors.New("filter.filter: missing; it is the name of the filter")
	}
	return nil
}

// isChainName reports whether a name has only letters, digits, `_` and `-`.
func isChainName(name string) bool {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
	}
	return name != "" && len(name) <= maxChainName && !strings.ContainsFunc(name, odd)
}

// FilterChain returns a chain of HTTP filters by its name.
func (a *App) FilterChain(name string) ([]json.RawMessage, error) {
	chain, ok := a.FilterChains[name]
	if !ok {
		return nil, fmt.Errorf("there is no chain %q in filter_chains of the app %s", name, appName)
	}
	return chain, nil
}
