package clienthello

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// What answer says about the windows below.
const (
	needMore     = "need more"
	notTLS       = "not TLS"
	badRecord    = "malformed record"
	badHandshake = "malformed handshake"
	reference    = `sni="example.com" alpn=[]`
)

var (
	referenceMessage = hellos.Message(hellos.Options{ServerName: "example.com"})
	referenceWire    = hellos.Wrap(referenceMessage)
)

// unhex returns the bytes of a text such as "16 03 03".
func unhex(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// handshake returns content in one handshake record.
func handshake(content []byte) []byte {
	return hellos.Record(hellos.TypeHandshake, 0x0303, content)
}

// interrupted returns the reference hello in three records, the second of another type.
func interrupted(contentType byte) []byte {
	wire := hellos.Wrap(referenceMessage, 23)
	wire[recordHeader+23] = contentType
	return wire
}

func TestFraming(t *testing.T) {
	oversized := hellos.Record(hellos.TypeHandshake, 0x0303, make([]byte, recordMax+1))
	tests := []struct {
		name   string
		window []byte
		want   string
	}{
		{"P01_empty", nil, needMore},
		{"P03_change_cipher_spec_first", unhex("14 03 03 00 01"), notTLS},
		{"P03_alert_first", unhex("15 03 03 00 02"), notTLS},
		{"P03_application_data_first", unhex("17 03 03 00 01"), notTLS},
		{"P03_heartbeat_first", unhex("18 03 03 00 01"), notTLS},
		{"P03_alert_first_one_byte", unhex("15"), notTLS},
		{"P04_http_one_byte", []byte("G"), notTLS},
		{"P04_http", []byte("GET /"), notTLS},
		{"P04_handshake_one_byte", unhex("16"), needMore},
		{"P05_sslv2", unhex("80 2e 01 03 01"), notTLS},
		{"P06_record_too_long_by_one", unhex("16 03 03 40 01"), badRecord},
		{"P06_record_too_long_header_cut", unhex("16 03 03 40"), needMore},
		{"P07_record_of_full_size", unhex("16 03 03 40 00"), needMore},
		{"P08_record_length_ffff", unhex("16 03 03 ff ff"), badRecord},
		{"P09_type_beats_length", unhex("17 03 03 ff ff"), notTLS},
		{"P12_server_hello", handshake(hellos.Handshake(2, make([]byte, 50))), badHandshake},
		{"P12_server_hello_cut", handshake(hellos.Handshake(2, make([]byte, 50)))[:58], needMore},
		{"P13_message_type_0", handshake(hellos.Handshake(0, make([]byte, 50))), badHandshake},
		{"P13_message_type_11", handshake(hellos.Handshake(11, make([]byte, 50))), badHandshake},
		{"P13_message_type_255", handshake(hellos.Handshake(255, make([]byte, 50))), badHandshake},
		{"P13_message_type_after_empty_record", hellos.Wrap(hellos.Handshake(2, make([]byte, 50)), 0, 54), badHandshake},
		{"P13_message_type_in_one_byte_record", handshake([]byte{2}), badHandshake},
		{"P14_empty_message", handshake(unhex("01 000000")), badHandshake},
		{"P15_message_length_ffffff", handshake(append(unhex("01 ffffff"), make([]byte, 16000)...)), needMore},
		{"P16_empty_record_first", hellos.Wrap(referenceMessage, 0, hellos.MaxRecord), reference},
		{"P16_empty_records_between", hellos.Wrap(referenceMessage, 2, 0, 0, 3, 0, 30), reference},
		{"P17_1000_empty_records", hellos.Wrap(referenceMessage, append(make([]int, 1000), 67)...), reference},
		{"P17_1000_empty_records_only", bytes.Repeat(handshake(nil), 1000), needMore},
		{"P19_header_1_3", hellos.Wrap(referenceMessage, 1, 3, 63), reference},
		{"P19_header_2_2", hellos.Wrap(referenceMessage, 2, 2, 63), reference},
		{"P19_header_3_1", hellos.Wrap(referenceMessage, 3, 1, 63), reference},
		{"P19_header_1_1_and_rest", hellos.Wrap(referenceMessage, 1, 1, 65), reference},
		{"P19_header_only", handshake(referenceMessage[:4]), needMore},
		{"P20_change_cipher_spec_inside", interrupted(20), badRecord},
		{"P20_alert_inside", interrupted(21), badRecord},
		{"P20_application_data_inside", interrupted(23), badRecord},
		{"P20_other_type_after_empty_record", append(handshake(nil), unhex("15 03 03 00 02")...), badRecord},
		{"P21_other_type_header_only", interrupted(23)[:23+2*recordHeader], badRecord},
		{"P21_other_type_header_cut", interrupted(23)[:23+2*recordHeader-1], needMore},
		{"P22_second_record_too_long", slices.Concat(handshake(referenceMessage[:9]), oversized), badRecord},
		{"P22_second_record_type_beats_length", append(handshake([]byte{1}), unhex("17 03 03 ff ff")...), badRecord},
		{"P23_two_messages_in_a_record", handshake(append(slices.Clone(referenceMessage), 2, 0, 0, 9)), reference},
		{"P23_two_messages_first_without_block", handshake(append(hellos.Message(hellos.Options{}), 2, 0)), nothing},
		{"P23_last_record_over_message_size", hellos.Wrap(append(slices.Clone(referenceMessage), 2, 0), 1, 68), reference},
		{"P23_two_messages_in_two_records", hellos.Wrap(append(slices.Clone(referenceMessage), 2, 0), 60, 9), reference},
		{"P24_application_data_behind", append(slices.Clone(referenceWire), unhex("17 03 03 ff ff")...), reference},
		{"P24_rubbish_behind", append(slices.Clone(referenceWire), "GET / HTTP/1.1"...), reference},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := answer(tt.window); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			checkLaws(t, tt.window, bytes.Repeat([]byte{1}, len(tt.window)))
		})
	}
}

func TestP02_EveryPrefixNeedsMore(t *testing.T) {
	drip(t, referenceWire)
	for n := range referenceWire {
		if got := answer(referenceWire[:n]); got != needMore {
			t.Errorf("%d bytes: got %v, want %v", n, got, needMore)
		}
	}
	if got := answer(referenceWire); got != reference {
		t.Errorf("got %v, want %v", got, reference)
	}
}

func TestP03_EveryFirstByte(t *testing.T) {
	for b := range 256 {
		want := notTLS
		if b == contentHandshake {
			want = needMore
		}
		if got := answer([]byte{byte(b)}); got != want {
			t.Errorf("%#x: got %v, want %v", b, got, want)
		}
	}
}

func TestP10_RecordVersionIsIgnored(t *testing.T) {
	for _, version := range []uint16{0, 0x0300, 0x0301, 0x0302, 0x0304, 0xffff} {
		if got := answer(hellos.Record(hellos.TypeHandshake, version, referenceMessage)); got != reference {
			t.Errorf("%04x: got %v, want %v", version, got, reference)
		}
	}
}

func TestP18_EveryRecordSize(t *testing.T) {
	for size := 1; size <= len(referenceMessage); size++ {
		checkRecords(t, referenceMessage, []int{size})
		if got := answer(hellos.Wrap(referenceMessage, size)); got != reference {
			t.Errorf("records of %d: got %v, want %v", size, got, reference)
		}
	}
}

func TestSizes(t *testing.T) {
	padded := hellos.Message(hellos.Options{ServerName: "a.test", Pad: recordMax})
	long := hellos.Message(hellos.Options{ServerName: "example.com", Tail: make([]byte, 70000)})
	tests := []struct {
		name                    string
		window                  []byte
		size, records, wireSize int
	}{
		{"one_record", referenceWire, 67, 1, 72},
		{"bytes_behind", append(slices.Clone(referenceWire), 1, 2, 3), 67, 1, 72},
		{"message_behind", handshake(append(slices.Clone(referenceMessage), 2, 0)), 67, 1, 74},
		{"two_records", hellos.Wrap(referenceMessage, 34), 67, 2, 77},
		{"record_per_byte", hellos.Wrap(referenceMessage, 1), 67, 67, 402},
		{"empty_records", hellos.Wrap(referenceMessage, 0, 30, 0, 37), 67, 4, 87},
		{"empty_record_behind", append(slices.Clone(referenceWire), handshake(nil)...), 67, 1, 72},
		{"message_over_64_KiB", hellos.Wrap(long), 67 + 70000, 5, 67 + 70000 + 5*recordHeader},
		{"longest_record", hellos.Wrap(padded), recordMax, 1, recordMax + recordHeader},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p Parser
			if got := p.Parse(tt.window); got != Complete {
				t.Fatalf("got %v, want %v", got, Complete)
			}
			h := p.Hello()
			got := [3]int{h.Size, h.Records, h.WireSize}
			if want := [3]int{tt.size, tt.records, tt.wireSize}; got != want {
				t.Errorf("got size, records, wire size %v, want %v", got, want)
			}
		})
	}
}

// TestNoMemoryBeforeTheEnd sends what promises 16 MiB: the parser keeps none of it.
func TestNoMemoryBeforeTheEnd(t *testing.T) {
	promise := append(unhex("01 ffffff"), make([]byte, 20000)...)
	for _, size := range []int{1, 100, recordMax} {
		if got := allocations(hellos.Wrap(promise, size)); got != 0 {
			t.Errorf("records of %d: got %v allocations, want 0", size, got)
		}
	}
}

// TestMemoryOfSeveralRecords wants one allocation of the size of the message, and none for a message in one record.
func TestMemoryOfSeveralRecords(t *testing.T) {
	message := hellos.Message(hellos.Options{ServerName: "a.test", Pad: 4096})
	if got := allocations(hellos.Wrap(message, 0, 0, 4096)); got != 0 {
		t.Errorf("one record with content: got %v allocations, want 0", got)
	}
	wire := hellos.Wrap(message, 7)
	if got := allocations(wire); got != 1 {
		t.Errorf("several records: got %v allocations, want 1", got)
	}
	if got := allocated(wire); got != 4096 {
		t.Errorf("got %d bytes allocated, want 4096", got)
	}
}

// allocated returns how many bytes a parse of the window allocates: the least of some tries, since other goroutines
// allocate too.
func allocated(window []byte) uint64 {
	least := ^uint64(0)
	for range 20 {
		var p Parser
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p.Parse(window)
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// TestNothingIsReadTwice feeds hellos byte by byte and overwrites what the parser has used. Only the last call, which
// puts a message in several records together, gets the true bytes.
func TestNothingIsReadTwice(t *testing.T) {
	message := hellos.Message(hellos.Options{ServerName: "example.com", Pad: 2 << 10})
	for _, sizes := range [][]int{{hellos.MaxRecord}, {1}, {0, 2, 700}} {
		t.Run(fmt.Sprintf("records_of_%v", sizes), func(t *testing.T) {
			wire := hellos.Wrap(message, sizes...)
			window := slices.Clone(wire)
			var p Parser
			for n := range window {
				if got := p.Parse(window[:n]); got != NeedMore {
					t.Fatalf("%d bytes of %d: got %v, want %v", n, len(wire), got, NeedMore)
				}
				overwriteUsed(&p, window)
			}
			if p.Parse(wire); p.Hello() == nil || content(p.Hello()) != reference {
				t.Errorf("got %v, want %v", outcome(&p), reference)
			}
		})
	}
}

// overwriteUsed overwrites the records that p has used, and the header of the next one once p has read it.
func overwriteUsed(p *Parser, window []byte) {
	used := p.next
	if p.end != 0 {
		used += recordHeader
	}
	for i := range used {
		window[i] = 0xff
	}
}
