package explain

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

func TestMakeHello(t *testing.T) {
	long := strings.Repeat("p", 255)
	tests := []struct {
		name  string
		alpn  []string
		ech   bool
		wrong bool
	}{
		{name: ""},
		{name: "a.test"},
		{name: "a.test.", alpn: []string{"h2", "http/1.1"}, ech: true},
		{name: "192.0.2.1", ech: true},
		{name: "", alpn: []string{"\x00,\xff", long}, ech: true},
		{name: strings.Repeat("n", 16000)},
		{name: strings.Repeat("n", 17000), wrong: true},
		{name: strings.Repeat("n", 70000), wrong: true},
	}
	for _, tt := range tests {
		b, err := makeHello(tt.name, tt.alpn, tt.ech)
		if (err != nil) != tt.wrong {
			t.Errorf("%.20q: got error %v, want one: %v", tt.name, err, tt.wrong)
		}
		if err != nil {
			continue
		}
		var p clienthello.Parser
		if got := p.Parse(b); got != clienthello.Complete {
			t.Errorf("%.20q: got %v, want %v", tt.name, got, clienthello.Complete)
			continue
		}
		h := p.Hello()
		if string(h.ServerName) != tt.name || !slices.Equal(h.ALPN.Strings(), tt.alpn) || h.ECH != tt.ech {
			t.Errorf("got %q %q %v, want %q %q %v", h.ServerName, h.ALPN.Strings(), h.ECH, tt.name, tt.alpn, tt.ech)
		}
		if h.WireSize != len(b) || !bytes.Equal(h.SupportedVersions, []byte{3, 4, 3, 3}) {
			t.Errorf("%.20q: got wire size %d, versions %x, want %d, 03040303", tt.name, h.WireSize, h.SupportedVersions, len(b))
		}
	}
}

func TestDecode(t *testing.T) {
	hello := hellos.Find("curl-7.88-h2").Bytes
	text := hex.EncodeToString(hello)
	var pairs []string
	for i := 0; i < len(text); i += 2 {
		pairs = append(pairs, text[i:i+2])
	}
	tests := map[string]struct {
		data string
		want []byte
	}{
		"raw":             {string(hello), hello},
		"raw, cut":        {string(hello[:1]), hello[:1]},
		"raw HTTP":        {"DELETE / HTTP/1.1\r\n\r\n", []byte("DELETE / HTTP/1.1\r\n\r\n")},
		"raw, PROXY":      {"\r\n\r\n\x00\r\nQUIT\n", []byte("\r\n\r\n\x00\r\nQUIT\n")},
		"raw, line end":   {"\r\n", []byte("\r\n")},
		"raw, empty":      {"", nil},
		"hex":             {text, hello},
		"hex, upper case": {strings.ToUpper(text), hello},
		"hex, colons":     {strings.Join(pairs, ":"), hello},
		"hex, C":          {"0x" + strings.Join(pairs, ", 0x") + "\n", hello},
		"hex, lines":      {strings.Join(pairs[:8], " ") + "\r\n" + strings.Join(pairs[8:], "\n"), hello},
		"hex of HTTP":     {"474554202f", []byte("GET /")},
	}
	for name, tt := range tests {
		got, err := decode([]byte(tt.data))
		if err != nil || !bytes.Equal(got, tt.want) {
			t.Errorf("%s: got %.40x, %v, want %.40x", name, got, err, tt.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := map[string]string{
		"1603 01zz":  `invalid hex: 'z' at offset 7`,
		"16:03:0 1":  `invalid hex: ' ' at offset 7`,
		"16 03 10x1": `invalid hex: 'x' at offset 8`,
		"16 03 01 0": "the hex text ends in the middle of a byte",
		"474":        "the hex text ends in the middle of a byte",
	}
	for data, want := range tests {
		if got, err := decode([]byte(data)); err == nil || err.Error() != want {
			t.Errorf("%q: got %x, %v, want error %q", data, got, err, want)
		}
	}
}

func TestReadFileLimit(t *testing.T) {
	name := filepath.Join(t.TempDir(), "flight")
	for size, wrong := range map[int]bool{preread.MaxMaxBytes: false, preread.MaxMaxBytes + 1: true} {
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readFile(name, nil)
		if (err != nil) != wrong || !wrong && len(got) != size {
			t.Errorf("%d bytes: got %d, %v, want an error: %v", size, len(got), err, wrong)
		}
	}
}

// TestMissing cuts flights at every byte: what is missing is never more than what was cut off, and exact once the
// header of the message is there, if the rest of it is in records as long as they can be.
func TestMissing(t *testing.T) {
	message := hellos.Message(hellos.Options{ServerName: "a.test", Pad: 40000})
	for _, sizes := range [][]int{{16384}, {5, 16384}, {2, 0, 1, 16384}, {1000}, {7, 100}} {
		wire := hellos.Wrap(message, sizes...)
		for cut := 0; cut < len(wire); cut += 1 + cut/500 {
			got, rest := missing(wire[:cut]), len(wire)-cut
			exact := sizes[len(sizes)-1] == 16384 && cut >= 40
			if got <= 0 || got > rest || exact && got != rest {
				t.Fatalf("records %v, cut at %d: got %d, want %d (exact: %v)", sizes, cut, got, rest, exact)
			}
		}
	}
	if got := missing(hellos.Wrap(hellos.Handshake(2, make([]byte, 20000)), 100)[:50]); got != 55 {
		t.Errorf("another message: got %d, want 55", got)
	}
}

// TestMissingIsTheLeast: no hello is complete with fewer bytes than are said to be missing, whatever length the
// message says it has and wherever it is cut.
func TestMissingIsTheLeast(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		body := make([]byte, random.IntN(90))
		message := hellos.Handshake(1, body)
		if random.IntN(2) == 0 {
			message = hellos.Message(hellos.Options{ServerName: string(body[:len(body)/2])})
		}
		wire := hellos.Wrap(message, random.IntN(20), 1+random.IntN(60))
		window := wire[:random.IntN(len(wire))]
		if new(clienthello.Parser).Parse(window) != clienthello.NeedMore {
			t.Fatalf("%x: got a verdict, want none", window)
		}
		n := missing(window)
		if n <= 0 || n > len(wire)-len(window) {
			t.Fatalf("%x: got %d bytes missing, want 1 to %d", window, n, len(wire)-len(window))
		}
		longer := wire[:len(window)+n-1]
		if got := new(clienthello.Parser).Parse(longer); got != clienthello.NeedMore {
			t.Fatalf("%x: got %v with %d bytes more, want at least %d", window, got, n-1, n)
		}
	}
}

// TestDecodeAnyBytes: hex text stands for its bytes, whatever they are.
func TestDecodeAnyBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2_000 {
		want := make([]byte, 1+random.IntN(40))
		for i := range want {
			want[i] = byte(random.Uint32())
		}
		for _, separator := range []string{"", " ", ":", ",", "\r\n", " 0x", ", 0x"} {
			var text strings.Builder
			for _, c := range want {
				text.WriteString(separator + hex.EncodeToString([]byte{c}))
			}
			if got, err := decode([]byte(text.String())); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q: got %x, %v, want %x", text.String(), got, err, want)
			}
		}
	}
}
