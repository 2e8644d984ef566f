package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// filters returns the names of the filters that there are.
func filters() (names []string) {
	for _, m := range caddy.GetModules("http.filters") {
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
	if _, err := caddy.GetModule("http.filters." + name); err != nil {
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
