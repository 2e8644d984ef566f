package adminapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// maxChange is how long the body of a PATCH may be. The longest that makes sense has a hundred bytes.
const maxChange = 4 << 10

// readChange reads the body of a PATCH: `weight`, `state` and `deadline`, each at most once, and nothing else.
func readChange(body io.Reader) (change cluster.Change, err error) {
	text, err := io.ReadAll(io.LimitReader(body, maxChange+1))
	if err != nil || len(text) > maxChange {
		return change, fmt.Errorf("the body must have at most %d bytes", maxChange)
	}
	var weight *uint32
	var state, deadline *string
	if err := readMembers(text, map[string]any{"weight": &weight, "state": &state, "deadline": &deadline}); err != nil {
		return change, fmt.Errorf(`the body must be like {"weight":3} or {"state":"drain","deadline":"30s"}: %w`, err)
	}
	if weight == nil && state == nil {
		return change, errors.New("the body must have weight or state")
	}
	change.Weight = weight
	if state != nil {
		if change.State = *state; change.State == "" {
			return change, errors.New("state is empty: DELETE takes back what was ordered")
		}
	}
	if deadline != nil {
		if change.Deadline, err = caddy.ParseDuration(*deadline); err != nil || change.Deadline <= 0 {
			return change, fmt.Errorf("deadline: %q is not a positive duration", *deadline)
		}
	}
	return change, nil
}

// readMembers reads a text that is one JSON object into the places that its members have. The standard library takes the
// last of two equal names, other cases of a name, and whatever stands behind the object.
func readMembers(text []byte, places map[string]any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return errors.New("it is not an object")
	}
	seen := make(map[string]bool, len(places))
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		switch place, known := places[name]; {
		case !known:
			return fmt.Errorf("%q is unknown", name)
		case seen[name]:
			return fmt.Errorf("%q is there twice", name)
		default:
			if err := dec.Decode(place); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		seen[name] = true
	}
	if _, err := dec.Token(); err != nil {
		return errors.New("the object has no end")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the object")
	}
	return nil
}
