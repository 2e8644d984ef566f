package clienthello

import (
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// TestP15_FullRecordOfALongMessage has a record of the longest legal size that holds only the beginning.
func TestP15_FullRecordOfALongMessage(t *testing.T) {
	window := handshake(append(unhex("01 ffffff"), make([]byte, recordMax-handshakeHeader)...))
	if len(window) != recordHeader+recordMax {
		t.Fatalf("got a record of %d bytes, want the longest", len(window))
	}
	if got := answer(window); got != needMore {
		t.Errorf("got %v, want %v", got, needMore)
	}
}

// TestP18_EveryRecordCount cuts the reference hello into each number of records that it can have.
func TestP18_EveryRecordCount(t *testing.T) {
	for count := 2; count <= len(referenceMessage); count++ {
		var sizes []int
		for range count - 1 {
			sizes = append(sizes, 1)
		}
		window := hellos.Wrap(referenceMessage, append(sizes, len(referenceMessage))...)
		var p Parser
		if got := p.Parse(window); got != Complete || p.Hello().Records != count || content(p.Hello()) != reference {
			t.Errorf("%d records: got %v, want %v", count, outcome(&p), reference)
		}
	}
}
