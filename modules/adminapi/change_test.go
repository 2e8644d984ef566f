package adminapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

func TestReadChange(t *testing.T) {
	weight := func(n uint32) *uint32 { return &n }
	for _, tc := range []struct {
		body string
		want cluster.Change
	}{
		{`{"weight":3}`, cluster.Change{Weight: weight(3)}},
		{" {\n\"weight\" : 0 }\r\n\t ", cluster.Change{Weight: weight(0)}},
		{`{"state":"up"}`, cluster.Change{State: "up"}},
		{`{"deadline":"30s","state":"drain","weight":1}`, cluster.Change{State: "drain", Deadline: 30 * time.Second, Weight: weight(1)}},
		{`{"weight":null,"st\u0061te":"up"}`, cluster.Change{State: "up"}},
	} {
		got, err := readChange(strings.NewReader(tc.body))
		same := got.State == tc.want.State && got.Deadline == tc.want.Deadline && (got.Weight == nil) == (tc.want.Weight == nil) &&
			(got.Weight == nil || *got.Weight == *tc.want.Weight)
		if err != nil || !same {
			t.Errorf("%s: got %+v, %v, want %+v", tc.body, got, err, tc.want)
		}
	}
}

func TestReadChangeRefuses(t *testing.T) {
	for body, want := range map[string]string{
		``:                                    "not an object",
		`3`:                                   "not an object",
		`null`:                                "not an object",
		`[{"weight":3}]`:                      "not an object",
		`{}`:                                  "weight or state",
		`{"deadline":"1s"}`:                   "weight or state",
		`{"weight":null}`:                     "weight or state",
		`{"weight":1,"weight":2}`:             `"weight" is there twice`,
		`{"weight":null,"weight":2}`:          `"weight" is there twice`,
		`{"state":"up","st\u0061te":"drain"}`: `"state" is there twice`,
		`{"Weight":1}`:                        `"Weight" is unknown`,
		`{"weight":3,"more":1}`:               `"more" is unknown`,
		`{"weight":3} garbage`:                "behind the object",
		`{"weight":3}{"state":"disabled"}`:    "behind the object",
		`{"weight":3}}`:                       "behind the object",
		`{"weight":3`:                         "has no end",
		`{"weight":3]`:                        "has no end",
		`{"weight":3,}`:                       "must be like",
		`{"weight":`:                          "must be like",
		`{"weight":"3"}`:                      "must be like",
		`{"weight":-1}`:                       "must be like",
		`{"weight":1.5}`:                      "must be like",
		`{"state":""}`:                        "state is empty",
		`{"state":"drain","deadline":"-1s"}`:  "deadline",
		`{"state":"drain","deadline":"x"}`:    "deadline",
		`{"state":"` + strings.Repeat("x", maxChange) + `"}`: "at most 4096 bytes",
	} {
		if got, err := readChange(strings.NewReader(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want an error with %q", body, got, err, want)
		}
	}
}

// FuzzReadMembers has bodies of a PATCH. Laws: what is taken is one JSON object whose members are those that are known,
// each once, and nothing follows it.
func FuzzReadMembers(f *testing.F) {
	for _, seed := range []string{`{"weight":3}`, `{"state":"drain","deadline":"30s"}`, `{"weight":1,"weight":2}`, `{"weight":3}x`, `{"weight":3,}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var weight *uint32
		var state, deadline *string
		places := map[string]any{"weight": &weight, "state": &state, "deadline": &deadline}
		if readMembers(text, places) != nil {
			return
		}
		before := []bool{weight != nil, state != nil, deadline != nil}
		var all map[string]any
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatalf("took %q: %v", text, err)
		}
		for name := range all {
			if places[name] == nil {
				t.Fatalf("took %q with %q", text, name)
			}
			again := string(text[:bytes.LastIndexByte(text, '}')]) + `,"` + name + `":null}`
			if readMembers([]byte(again), places) == nil {
				t.Fatalf("took %q", again)
			}
		}
		// What is taken is what the standard library takes.
		if want := []bool{all["weight"] != nil, all["state"] != nil, all["deadline"] != nil}; !slices.Equal(before, want) {
			t.Fatalf("took %q as %v, want %v", text, before, want)
		}
	})
}
