package clienthello

import (
	"bytes"
	"slices"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// TestP58_RecordedHellos compares with what another program read from the same files.
func TestP58_RecordedHellos(t *testing.T) {
	for _, r := range hellos.Recorded() {
		t.Run(r.Name, func(t *testing.T) {
			var p Parser
			if got := p.Parse(r.Bytes); got != Complete {
				t.Fatalf("got %v, want %v", got, Complete)
			}
			h := p.Hello()
			if got := string(h.ServerName); got != r.ServerName || (h.ServerName == nil) != (r.ServerName == "") {
				t.Errorf("got name %q, want %q", got, r.ServerName)
			}
			if got := h.ALPN.Strings(); !slices.Equal(got, r.ALPN) {
				t.Errorf("got ALPN %q, want %q", got, r.ALPN)
			}
			if h.ECH != r.ECH {
				t.Errorf("got ECH %v, want %v", h.ECH, r.ECH)
			}
			if !bytes.Equal(h.SupportedVersions, r.SupportedVersions) {
				t.Errorf("got versions %x, want %x", h.SupportedVersions, r.SupportedVersions)
			}
			got := [3]int{h.Size, h.Records, h.WireSize}
			if want := [3]int{r.Hello, r.Records, len(r.Bytes)}; got != want {
				t.Errorf("got size, records, wire size %v, want %v", got, want)
			}
		})
	}
}

func TestP58_RecordedHellosInPieces(t *testing.T) {
	for _, r := range hellos.Recorded() {
		t.Run(r.Name, func(t *testing.T) {
			drip(t, r.Bytes)
			checkLaws(t, r.Bytes, bytes.Repeat([]byte{1}, len(r.Bytes)))
			var whole Parser
			whole.Parse(r.Bytes)
			want := outcome(&whole)
			for cut := range r.Bytes {
				var p Parser
				if got := p.Parse(r.Bytes[:cut]); got != NeedMore {
					t.Fatalf("cut at %d: got %v, want %v", cut, got, NeedMore)
				}
				p.Parse(r.Bytes)
				if got := outcome(&p); got != want {
					t.Fatalf("cut at %d: got %v, want %v", cut, got, want)
				}
			}
		})
	}
}

func TestP58_RecordedHellosInOtherRecords(t *testing.T) {
	for _, r := range hellos.Recorded() {
		t.Run(r.Name, func(t *testing.T) {
			message := slices.Concat(fragments(r.Bytes)...)
			for _, sizes := range [][]int{{1}, {2}, {5, 100}, {0, 3, 1, 0, 17}, {len(message) - 1}} {
				checkRecords(t, message, sizes)
			}
			many := hellos.Wrap(message, 1)
			drip(t, many)
			checkLaws(t, many, bytes.Repeat([]byte{1}, len(many)))
		})
	}
}
