package clienthello

import (
	"slices"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

func TestClone(t *testing.T) {
	window := hellos.New(hellos.Options{
		ServerName: "a.test", ALPN: []string{"h2"}, ECH: true, Versions: []uint16{0x0304},
	})
	var p Parser
	if got := p.Parse(window); got != Complete {
		t.Fatalf("got %v, want %v", got, Complete)
	}
	want := outcome(&p)
	clone := p.Hello().Clone()
	clear(window)
	if outcome(&p) == want {
		t.Error("the hello does not change with the window: it is no view, and the test proves nothing")
	}
	if got := outcome(&Parser{status: Complete, hello: *clone}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCloneKeepsNilAndEmpty(t *testing.T) {
	if c := (&Hello{}).Clone(); c.ServerName != nil || c.ALPN != nil || c.SupportedVersions != nil {
		t.Errorf("got %#v, want nil slices", c)
	}
	if c := (&Hello{ServerName: []byte{}}).Clone(); c.ServerName == nil {
		t.Error("got a nil name, want an empty one")
	}
}

// TestStatusString holds the words of the statuses, which are read in logs.
func TestStatusString(t *testing.T) {
	want := []string{"need more", "complete", "not TLS", "malformed record", "malformed handshake", "unknown"}
	for i, want := range want {
		if got := Status(i).String(); got != want {
			t.Errorf("%d: got %v, want %v", i, got, want)
		}
	}
}

func TestProtocols(t *testing.T) {
	tests := []struct {
		name string
		list Protocols
		want []string
	}{
		{"nil", nil, nil},
		{"empty", Protocols{}, nil},
		{"one", Protocols("\x02h2"), []string{"h2"}},
		{"two", Protocols("\x02h2\x08http/1.1"), []string{"h2", "http/1.1"}},
		{"empty_name_does_not_end_the_list", Protocols("\x00\x02h2\x00"), []string{"", "h2", ""}},
		{"name_cut", Protocols("\x02h2\x08http"), []string{"h2"}},
		{"name_missing", Protocols("\x01"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.list.Strings(); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProtocolsAllStops(t *testing.T) {
	for name := range Protocols("\x02h2\x08http/1.1").All() {
		if string(name) != "h2" {
			t.Fatalf("got %q, want h2", name)
		}
		if cap(name) != len(name) {
			t.Errorf("got capacity %d, want %d", cap(name), len(name))
		}
		break
	}
}

func TestProtocolsAllocateNothing(t *testing.T) {
	list := Protocols("\x02h2\x08http/1.1")
	got := testing.AllocsPerRun(100, func() {
		n := 0
		for name := range list.All() {
			n += len(name)
		}
		if n != 10 {
			t.Errorf("got %d bytes of names, want 10", n)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}
