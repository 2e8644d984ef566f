package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"
)

func init() {
	caddy.RegisterModule(&step{})
}

// steps carries what `step` handlers did, in order.
var steps = make(chan string, 1<<10)

// step is a filter that notes when a connection comes and when it has gone. It may refuse it, or fail.
type step struct {
	Name string `json:"name,omitempty"`
	Does string `json:"does,omitempty"`
}

func (*step) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.step", New: func() caddy.Module { return new(step) }}
}

func (s *step) Handle(cx *layer4.Connection, next layer4.Handler) error {
	steps <- s.Name + " connect"
	defer func() { steps <- s.Name + " disconnect" }()
	switch s.Does {
	case "refuse":
		return nil
	case "fail":
		return errors.New("a filter has failed")
	}
	return next.Handle(cx)
}

func (s *step) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	d.Args(&s.Name, &s.Does)
	return nil
}

// takeSteps returns the next n steps.
func (p *proxy) takeSteps(n int) []string {
	p.Helper()
	var got []string
	p.eventually(fmt.Sprintf("%d steps", n), func() (string, bool) {
		for len(got) < n && len(steps) > 0 {
			got = append(got, <-steps)
		}
		return fmt.Sprint(got), len(got) == n
	})
	return got
}

// TestT60_Order checks that filters hear of a connection in their order and of its end in reverse, and that each one that
// has heard of it hears of its end, however it comes: also when the upstream can't be reached or a later filter refuses.
func TestT60_Order(t *testing.T) {
	whole := []string{"a connect", "b connect", "c connect", "c disconnect", "b disconnect", "a disconnect"}
	short := []string{"a connect", "b connect", "b disconnect", "a disconnect"}
	for _, tc := range []struct {
		name, handlers string
		want           []string
	}{
		{"T60_all_the_way", "step a\nstep b\nstep c\nforward {echo}", whole},
		{"T60_dial_failed", "step a\nstep b\nstep c\nforward {nobody}", whole},
		{"T60_fault_behind", "admission\nstep a\nstep b\nstep c\nfault", whole},
		{"T60_admission_refuses", "step a\nstep b\nip_acl {\ndeny 127.0.0.1\n}\nstep c\nforward {echo}", short},
		{"T62_filter_fails", "step a\nstep b fail\nstep c\nforward {echo}", short},
		{"T63_later_filter_refuses", "admission {\nmax_connections 1\n}\nstep a\nstep b refuse\nstep c\nforward {echo}", short},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			p := l.start(fill(tc.handlers, map[string]string{"{echo}": l.echo(), "{nobody}": l.freeAddr()}))
			for range 2 { // the second would be refused if the first held anything
				c := p.dial()
				c.end()
				c.expectClosed()
				if got := p.takeSteps(len(tc.want)); !slices.Equal(got, tc.want) {
					t.Errorf("got %v, want %v", got, tc.want)
				}
				p.awaitMetric(admitted, 0)
			}
		})
	}
}

// fill replaces words in a text.
func fill(text string, words map[string]string) string {
	for word, value := range words {
		text = strings.ReplaceAll(text, word, value)
	}
	return text
}

// Interface guards
var _ layer4.NextHandler = (*step)(nil)
