package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// namespace is that of the filters.
const namespace = "http.filters"

// filters returns the names of the filters that there are.
func filters() (names []string) {
	for _, m := range caddy.GetModules(namespace) {
		names = append(names, m.ID.Name())
	}
	return names
}

// checkModule says which filters there are if raw doesn't say which one it is the config of.
func checkModule(raw json.RawMessage) error {
	name := moduleName(raw)
	if name == "" {
		return fmt.Errorf("filter.filter: missing; it is the name of the filter, one of %s", strings.Join(filters(), ", "))
	}
	if _, err := caddy.GetModule(namespace + "." + name); err != nil {
		return fmt.Errorf("filter.filter: there is no filter %q; must be one of %s", name, strings.Join(filters(), ", "))
	}
	return nil
}

// checkName says what is wrong with the name of a filter.
func checkName(name string) error {
	switch {
	case !validName(name):
		return fmt.Errorf("%q must have 1 to %d letters, digits, _ and -", name, maxName)
	case reservedName(name):
		return fmt.Errorf("%q means something else where branches rejoin", name)
	}
	return nil
}

// reservedName reports whether a name is one of the words that say where branches rejoin.
func reservedName(name string) bool {
	return name == rejoinNext || name == rejoinEnd || name == rejoinTerminal
}

// moduleName returns the name of the module that raw is the config of.
func moduleName(raw json.RawMessage) string {
	var named struct {
		Filter string `json:"filter"`
	}
	_ = json.Unmarshal(raw, &named) // LoadModule says what is wrong
	return named.Filter
}

const (
	// maxName is the longest name of a filter, a branch, or a result.
	maxName = 64
	// nameChars are the characters of names.
	nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
)

// validName reports whether a name has only letters, digits, `_` and `-`.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, nameChars) == ""
}
