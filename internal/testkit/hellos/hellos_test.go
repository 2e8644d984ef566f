package hellos

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestSizes(t *testing.T) {
	name := Options{ServerName: "example.com"}
	tests := []struct {
		name string
		got  []byte
		want int
	}{
		{"no_extension_block", New(Options{}), 50},
		{"empty_extension_block", New(Options{Extensions: []Extension{}}), 52},
		{"server_name", New(name), 72},
		{"server_name_message", Message(name), 67},
		{"alpn_h2", New(Options{ServerName: "example.com", ALPN: []string{"h2"}}), 81},
		{"alpn_two", New(Options{ServerName: "example.com", ALPN: []string{"h2", "http/1.1"}}), 90},
		{"ech_only", New(Options{ECH: true}), 59},
		{"two_records", Wrap(Message(name), 34), 77},
		{"three_records", Wrap(Message(name), 23), 82},
		{"six_records", Wrap(Message(name), 12), 97},
		{"record_per_byte", Wrap(Message(name), 1), 402},
		{"empty_record_first", Wrap(Message(name), 0, MaxRecord), 77},
		{"padded_message", Message(Options{ServerName: "a.test", Pad: 2000}), 2000},
		{"padded_only", Message(Options{Pad: 51}), 51},
		{"padded_with_tail", Message(Options{Pad: 100, Tail: []byte{1}}), 100},
		{"padded_over_a_record", New(Options{Pad: MaxRecord + 1}), MaxRecord + 1 + 2*5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.got) != tt.want {
				t.Errorf("got %d bytes, want %d", len(tt.got), tt.want)
			}
		})
	}
}

// TestAnchor pins every byte of the reference hello.
func TestAnchor(t *testing.T) {
	want := "\x16\x03\x03\x00\x43\x01\x00\x00\x3f\x03\x03" + strings.Repeat("\x00", 32) +
		"\x00\x00\x02\x13\x01\x01\x00\x00\x14\x00\x00\x00\x10\x00\x0e\x00\x00\x0bexample.com"
	if got := New(Options{ServerName: "example.com"}); !bytes.Equal(got, []byte(want)) {
		t.Errorf("got % x, want % x", got, want)
	}
}

func TestImpossibleOptionsPanic(t *testing.T) {
	tests := map[string]func(){
		"pad_too_small":   func() { Message(Options{Pad: 50}) },
		"long_session_id": func() { Message(Options{SessionID: make([]byte, 256)}) },
		"long_block":      func() { Message(Options{Pad: 70000}) },
		"size_0_repeats":  func() { Wrap([]byte{1}, 0) },
		"unknown_client":  func() { Find("lynx") },
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic, want one")
				}
			}()
			f()
		})
	}
}

// TestRecordedIsComplete holds folder and index together: a file without a row would go untested.
func TestRecordedIsComplete(t *testing.T) {
	files, err := os.ReadDir("data")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".bin"); ok {
			want = append(want, name)
		}
	}
	var got []string
	for _, r := range Recorded() {
		got = append(got, r.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if r := Find("go-1.26-pq"); r.ServerName != "go.example.com" || len(r.Bytes) != 1524 {
		t.Errorf("got %s with %d bytes, want go.example.com with 1524", r.ServerName, len(r.Bytes))
	}
}
