package clienthello

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

const nothing = `sni=none alpn=[]`

// exts returns a hello with these extensions and no other.
func exts(list ...hellos.Extension) hellos.Options {
	return hellos.Options{Extensions: append([]hellos.Extension{}, list...)}
}

// raw returns an extension with the body given in hexadecimal.
func raw(kind uint16, body string) hellos.Extension {
	return hellos.Extension{Type: kind, Data: unhex(body)}
}

// name returns a server_name extension with one host_name.
func name(text string) hellos.Extension { return hellos.ServerName(hellos.Name{Name: text}) }

// sni returns a hello with nothing but a server_name extension that has this body.
func sni(body string) hellos.Options { return exts(raw(extensionServerName, body)) }

// alpn does the same for ALPN.
func alpn(body string) hellos.Options { return exts(raw(extensionALPN, body)) }

// bodyTest is a hello and what the parser is to say about it.
type bodyTest struct {
	name  string
	hello hellos.Options
	want  string
}

func runBodyTests(t *testing.T, tests []bodyTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			message := hellos.Message(tt.hello)
			window := hellos.Wrap(message)
			if got := answer(window); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			for n := range window {
				if got := answer(window[:n]); got != needMore {
					t.Fatalf("%d bytes of %d: got %v, want %v", n, len(window), got, needMore)
				}
			}
			checkLaws(t, window, bytes.Repeat([]byte{1}, len(window)))
			checkRecords(t, message, []int{1})
		})
	}
}

func TestFields(t *testing.T) {
	runBodyTests(t, []bodyTest{
		{"P11_legacy_version_0304", hellos.Options{ServerName: "example.com", LegacyVersion: 0x0304}, reference},
		{"P11_legacy_version_fefd", hellos.Options{ServerName: "example.com", LegacyVersion: 0xfefd}, reference},
		{"P25_no_extension_block", hellos.Options{}, nothing},
		{"P26_empty_extension_block", exts(), nothing},
		{"P27_one_byte_of_block_length", hellos.Options{Tail: unhex("00")}, badHandshake},
		{"P28_block_longer_than_body", hellos.Options{Tail: unhex("0005 00170000")}, badHandshake},
		{"P28_bytes_behind_block", hellos.Options{ServerName: "example.com", Tail: unhex("ff ff ff")}, reference},
		{"P29_session_id_33", hellos.Options{ServerName: "example.com", SessionID: make([]byte, 33)}, reference},
		{"P29_session_id_255", hellos.Options{ServerName: "example.com", SessionID: make([]byte, 255)}, reference},
		{"P30_cipher_suites_odd", hellos.Options{ServerName: "example.com", CipherSuites: unhex("13 01 13")}, reference},
		{"P30_cipher_suites_none", hellos.Options{ServerName: "example.com", CipherSuites: []byte{}}, reference},
		{"P31_compression_none", hellos.Options{ServerName: "example.com", Compression: []byte{}}, reference},
		{"P32_extension_longer_than_block", hellos.Options{Tail: unhex("0006 0017 0200 0000")}, badHandshake},
		{"P33_extension_header_1_byte", hellos.Options{Tail: unhex("0005 0017 0000 00")}, badHandshake},
		{"P33_extension_header_2_bytes", hellos.Options{Tail: unhex("0006 0017 0000 0017")}, badHandshake},
		{"P33_extension_header_3_bytes", hellos.Options{Tail: unhex("0007 0017 0000 001700")}, badHandshake},
	})
}

// TestLyingLengths overwrites length fields of a hello without extensions with values beyond the body.
func TestLyingLengths(t *testing.T) {
	const sessionID = handshakeHeader + 2 + randomLength
	tests := []struct {
		name   string
		offset int
		bytes  string
	}{
		{"P29_session_id_beyond_body", sessionID, "07"},
		{"P30_cipher_suites_beyond_body", sessionID + 1, "0005"},
		{"P30_cipher_suites_length_cut", sessionID, "05"},
		{"P31_compression_beyond_body", sessionID + 5, "02"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			message := hellos.Message(hellos.Options{})
			copy(message[tt.offset:], unhex(tt.bytes))
			if got := answer(hellos.Wrap(message)); got != badHandshake {
				t.Errorf("got %v, want %v", got, badHandshake)
			}
			checkRecords(t, message, []int{1})
		})
	}
}

// TestEveryCutBody cuts the message itself, so that its own length is true: only two cuts leave a sound hello.
func TestEveryCutBody(t *testing.T) {
	body := hellos.Message(hellos.Options{ServerName: "example.com"})[handshakeHeader:]
	const withoutBlock = 41
	for n := range body {
		want := badHandshake
		if n == withoutBlock {
			want = nothing
		}
		if got := answer(handshake(hellos.Handshake(1, body[:n]))); got != want {
			t.Errorf("%d bytes: got %v, want %v", n, got, want)
		}
	}
}

func TestServerName(t *testing.T) {
	long := strings.Repeat("a", 10000)
	dup := func(first, second hellos.Extension) hellos.Options { return exts(first, raw(0x0017, ""), second) }
	runBodyTests(t, []bodyTest{
		{"P34_empty_extension", sni(""), nothing},
		{"P35_one_byte", sni("00"), badHandshake},
		{"P36_empty_list", sni("0000"), nothing},
		{"P37_list_beyond_extension", sni("0200 00"), badHandshake},
		{"P37_list_beyond_extension_by_one", sni("0005 00 0001 61"), badHandshake},
		{"P38_name_beyond_list", sni("0004 00 0200 61"), badHandshake},
		{"P38_name_beyond_list_by_one", sni("0004 00 0002 61 62"), badHandshake},
		{"P38_other_type_beyond_list", sni("0004 01 0200 61"), badHandshake},
		{"P38_entry_header_cut", sni("0002 00 00"), badHandshake},
		{"P38_second_entry_header_cut", sni("0005 00 0001 61 00"), badHandshake},
		{"P39_bytes_behind_list", sni("0004 00 0001 61 ffff"), `sni="a" alpn=[]`},
		{"P39_bytes_behind_empty_list", sni("0000 00 0001 61"), nothing},
		{"P40_other_type_only", exts(hellos.ServerName(hellos.Name{Type: 1, Name: "a"})), nothing},
		{"P40_other_type_first", exts(hellos.ServerName(
			hellos.Name{Type: 1, Name: "a"}, hellos.Name{Name: "b"})), `sni="b" alpn=[]`},
		{"P40_other_types_around", exts(hellos.ServerName(
			hellos.Name{Type: 9, Name: "\xff"}, hellos.Name{Name: "b"}, hellos.Name{Type: 9})), `sni="b" alpn=[]`},
		{"P41_two_names", exts(hellos.ServerName(hellos.Name{Name: "a"}, hellos.Name{Name: "b"})), badHandshake},
		{"P41_two_equal_names", exts(hellos.ServerName(hellos.Name{Name: "a"}, hellos.Name{Name: "a"})), badHandshake},
		{"P41_two_empty_names", exts(hellos.ServerName(hellos.Name{}, hellos.Name{})), badHandshake},
		{"P41_empty_name_first", exts(hellos.ServerName(hellos.Name{}, hellos.Name{Name: "a"})), badHandshake},
		{"P42_empty_name", exts(name("")), `sni="" alpn=[]`},
		{"P43_not_UTF-8", exts(name("\xff\xfe")), badHandshake},
		{"P43_UTF-8_cut", exts(name("caf\xc3")), badHandshake},
		{"P43_UTF-8_surrogate", exts(name("\xed\xa0\x80")), badHandshake},
		{"P43_UTF-8_overlong", exts(name("\xc0\xae")), badHandshake},
		{"P43_UTF-8", exts(name("café.test")), `sni="café.test" alpn=[]`},
		{"P44_NUL_space_upper_case", exts(name("A\x00b .Test.")), `sni="A\x00b .Test." alpn=[]`},
		{"P45_255_bytes", exts(name(long[:255])), `sni="` + long[:255] + `" alpn=[]`},
		{"P45_256_bytes", exts(name(long[:256])), `sni="` + long[:256] + `" alpn=[]`},
		{"P45_10000_bytes", exts(name(long)), `sni="` + long + `" alpn=[]`},
		{"P46_twice_same", dup(name("a"), name("a")), badHandshake},
		{"P46_twice_different", dup(name("a"), name("b")), badHandshake},
		{"P46_twice_first_empty", dup(raw(extensionServerName, ""), name("a")), badHandshake},
		{"P46_twice_second_empty", dup(name("a"), raw(extensionServerName, "")), badHandshake},
	})
}

func TestALPN(t *testing.T) {
	long := strings.Repeat("x", 255)
	runBodyTests(t, []bodyTest{
		{"P47_empty_extension", alpn(""), badHandshake},
		{"P47_one_byte", alpn("00"), badHandshake},
		{"P48_empty_list", alpn("0000"), badHandshake},
		{"P48_empty_list_bytes_behind", alpn("0000 02 6832"), badHandshake},
		{"P48_list_beyond_extension", alpn("0200 02"), badHandshake},
		{"P48_list_beyond_extension_by_one", alpn("0004 02 6832"), badHandshake},
		{"P49_empty_name_between", exts(hellos.ALPN("h2", "", "http/1.1")), badHandshake},
		{"P49_empty_name_only", exts(hellos.ALPN("")), badHandshake},
		{"P49_empty_name_last", exts(hellos.ALPN("h2", "")), badHandshake},
		{"P49_name_beyond_list", alpn("0003 05 6832"), badHandshake},
		{"P49_name_beyond_list_inside_extension", alpn("0003 03 6832 33"), badHandshake},
		{"P50_order", exts(hellos.ALPN("http/1.1", "h2", "foo")), `sni=none alpn=["http/1.1" "h2" "foo"]`},
		{"P50_same_name_twice", exts(hellos.ALPN("h2", "h2")), `sni=none alpn=["h2" "h2"]`},
		{"P50_name_of_255_bytes", exts(hellos.ALPN(long, "h2")), `sni=none alpn=["` + long + `" "h2"]`},
		{"P50_binary_name", exts(hellos.ALPN("\x0a\x0a", "\xff")), `sni=none alpn=["\n\n" "\xff"]`},
		{"P51_bytes_behind_list", alpn("0003 02 6832 00ff"), `sni=none alpn=["h2"]`},
		{"P52_twice", exts(hellos.ALPN("h2"), hellos.ALPN("h2")), badHandshake},
		{"P52_twice_second_malformed", exts(hellos.ALPN("h2"), raw(extensionALPN, "")), badHandshake},
	})
}

func TestOtherExtensions(t *testing.T) {
	grease := func(n int) []hellos.Extension {
		body := bytes.Repeat([]byte{0xfe}, n)
		return []hellos.Extension{{Type: 0x0a0a, Data: body}, {Type: 0xfafa, Data: body}}
	}
	around := func(n int) hellos.Options {
		return exts(slices.Concat(grease(n), grease(n), []hellos.Extension{name("example.com")}, grease(n))...)
	}
	runBodyTests(t, []bodyTest{
		{"P53_GREASE_empty", around(0), reference},
		{"P53_GREASE_1", around(1), reference},
		{"P53_GREASE_2000", around(2000), reference},
		{"P54_unknown_twice", exts(raw(0x1234, "00"), name("example.com"), raw(0x1234, "01")), reference},
		{"P55_ECH_empty", exts(raw(extensionECH, "")), nothing + " ech"},
		{"P55_ECH", hellos.Options{ServerName: "example.com", ECH: true}, reference + " ech"},
		{"P55_ECH_twice", exts(raw(extensionECH, "01"), raw(extensionECH, "02")), nothing + " ech"},
		{"P56_old_ESNI", exts(raw(0xffce, "010203")), nothing},
		{"P57_malformed_ALPN_without_name", alpn("0200 02"), badHandshake},
		{"P57_malformed_ALPN_before_duplicate_name", exts(raw(extensionALPN, ""), name("a"), name("a")), badHandshake},
	})
	t.Run("P53_GREASE_4000", func(t *testing.T) {
		if got := answer(hellos.New(exts(append(grease(4000), name("example.com"))...))); got != reference {
			t.Errorf("got %v, want %v", got, reference)
		}
	})
}

func TestVersions(t *testing.T) {
	const kind = extensionSupportedVersions
	tests := []struct {
		name  string
		hello hellos.Options
		want  []byte
	}{
		{"absent", exts(), nil},
		{"two", hellos.Options{Versions: []uint16{0x0304, 0x0303}}, []byte{3, 4, 3, 3}},
		{"GREASE", hellos.Options{Versions: []uint16{0x5a5a, 0x0304}}, []byte{0x5a, 0x5a, 3, 4}},
		{"empty_extension", exts(raw(kind, "")), nil},
		{"empty_list", exts(raw(kind, "00")), nil},
		{"odd", exts(raw(kind, "03 030403")), nil},
		{"beyond_extension", exts(raw(kind, "04 0304")), nil},
		{"bytes_behind_list", exts(raw(kind, "02 0304 00")), nil},
		{"server_form", exts(raw(kind, "0304")), nil},
		{"first_of_two", exts(raw(kind, "02 0304"), raw(kind, "02 0303")), []byte{3, 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p Parser
			if got := p.Parse(hellos.New(tt.hello)); got != Complete {
				t.Fatalf("got %v, want %v", got, Complete)
			}
			if got := p.Hello().SupportedVersions; !bytes.Equal(got, tt.want) || (got == nil) != (tt.want == nil) {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
		})
	}
}

func TestLegacyVersion(t *testing.T) {
	message := hellos.Message(hellos.Options{ServerName: "example.com"})
	for _, version := range []uint16{0, 0x0301, 0x0304, 0xfefd} {
		message[handshakeHeader], message[handshakeHeader+1] = byte(version>>8), byte(version)
		var p Parser
		if got := p.Parse(hellos.Wrap(message)); got != Complete || p.Hello().LegacyVersion != version {
			t.Errorf("%04x: got %v and %04x", version, got, p.hello.LegacyVersion)
		}
	}
}
