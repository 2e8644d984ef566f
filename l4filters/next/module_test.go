package next

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"
)

// TestHandle checks that the connection goes on as it is, and that what comes back is passed on.
func TestHandle(t *testing.T) {
	want := errors.New("from behind")
	cx := new(layer4.Connection)
	var got *layer4.Connection
	err := new(Handler).Handle(cx, layer4.HandlerFunc(func(cx *layer4.Connection) error {
		got = cx
		return want
	}))
	if got != cx || err != want {
		t.Errorf("got connection %p, error %v, want %p, %v", got, err, cx, want)
	}
}

func TestUnmarshalCaddyfile(t *testing.T) {
	for input, want := range map[string]string{
		"next":            "",
		"next x":          `next takes no argument, got "x"`,
		"next {\n\tx\n}":  "next takes no block",
		"next\nforward x": "",
	} {
		err := new(Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got error %v, want %q", input, err, want)
		}
	}
}
