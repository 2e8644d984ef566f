package explain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/net/idna"

	"github.com/caddy-sluice/sluice/internal/preread"
)

// flight is the first bytes that a client sends, and who it is.
type flight struct {
	bytes []byte
	// made is set for a hello that was made for the question. It stands for a client that does what the listener
	// wants, a PROXY header included.
	made bool
	// peer is the other end of the connection; the zero value when it is not known.
	peer netip.Addr
}

// readFlight makes or reads the flight that the flags ask for.
func readFlight(fl caddycmd.Flags, stdin io.Reader) (flight, error) {
	named, captured := fl.Changed("name"), fl.Changed("hello")
	switch {
	case named == captured:
		return flight{}, errors.New("give either --name or --hello")
	case captured && (fl.Changed("alpn") || fl.Changed("ech")):
		return flight{}, errors.New("--alpn and --ech go with --name; a captured hello has its own")
	case named && fl.Changed("peer"):
		return flight{}, errors.New("--peer goes with --hello; with --name the client does what the listener wants")
	case named:
		return makeFlight(fl)
	}
	f := flight{}
	var err error
	if peer := fl.String("peer"); peer != "" {
		if f.peer, err = netip.ParseAddr(peer); err != nil {
			return f, fmt.Errorf("--peer: %w", err)
		}
		f.peer = f.peer.Unmap().WithZone("")
	}
	if f.bytes, err = readFile(fl.String("hello"), stdin); err != nil {
		return f, fmt.Errorf("--hello: %w", err)
	}
	return f, nil
}

// readFile reads a flight from a file, or from stdin if it is called "-".
func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		stdin = file
	}
	data, err := io.ReadAll(io.LimitReader(stdin, preread.MaxMaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > preread.MaxMaxBytes {
		return nil, fmt.Errorf("%s is longer than %d bytes, more than any max_bytes allows", name, preread.MaxMaxBytes)
	}
	return decode(data)
}

// decode returns the bytes that data stands for: hex text, if it begins as a TLS record does in hex, or if it has no
// other characters; else data itself.
func decode(data []byte) ([]byte, error) {
	decoded, at := decodeHex(data)
	switch {
	case at < 0:
		return nil, errors.New("the hex text ends in the middle of a byte")
	case at == len(data) && len(decoded) > 0:
		return decoded, nil
	case at < len(data) && bytes.HasPrefix(decoded, []byte{22, 3}):
		return nil, fmt.Errorf("invalid hex: %q at offset %d", data[at], at)
	}
	return data, nil
}

// decodeHex decodes hex digits between which there may be white space, colons, commas and 0x, as the usual programs
// write them. It stops at the first other character and returns its offset; -1 when the last byte lacks a digit.
func decodeHex(text []byte) (decoded []byte, offset int) {
	high, half := byte(0), false
	for i, c := range text {
		digit, ok := hexDigit(c)
		switch {
		case ok && half:
			decoded, half = append(decoded, high<<4|digit), false
		case ok:
			high, half = digit, true
		case half && high == 0 && c == 'x':
			half = false
		case half || bytes.IndexByte([]byte(" \t\r\n:,"), c) < 0:
			return decoded, i
		}
	}
	if half {
		return decoded, -1
	}
	return decoded, len(text)
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// makeFlight makes a hello. A name in Unicode is written the way browsers do; any other goes out as it is.
func makeFlight(fl caddycmd.Flags) (flight, error) {
	f := flight{made: true}
	name := fl.String("name")
	if bytes.ContainsFunc([]byte(name), func(r rune) bool { return r >= 0x80 }) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return f, fmt.Errorf("--name: %w", err)
		}
		name = ascii
	}
	protocols, err := fl.GetStringSlice("alpn")
	if err != nil {
		return f, err
	}
	for _, protocol := range protocols {
		if len(protocol) == 0 || len(protocol) > 255 {
			return f, fmt.Errorf("--alpn: %q has %d bytes, must have 1 to 255", protocol, len(protocol))
		}
	}
	f.bytes, err = makeHello(name, protocols, fl.Bool("ech"))
	return f, err
}

// makeHello returns the smallest hello that says this, in one record (RFC 8446 §4.1.2 and §5.1).
func makeHello(name string, protocols []string, ech bool) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddBytes([]byte{22, 3, 1}) // a handshake record
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddUint8(1) // a ClientHello
		b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) {
			b.AddUint16(0x0303)
			b.AddBytes(make([]byte, 32))               // random
			b.AddUint8(0)                              // session id
			b.AddBytes([]byte{0, 2, 0x13, 0x01, 1, 0}) // cipher suites, compression methods
			b.AddUint16LengthPrefixed(extensions(name, protocols, ech))
		})
	})
	hello, err := b.Bytes()
	if err != nil || len(hello) > 5+16384 {
		return nil, errors.New("--name and --alpn are too long for one TLS record")
	}
	return hello, nil
}

// extensions writes supported_versions and the extensions that the preread looks at.
func extensions(name string, protocols []string, ech bool) cryptobyte.BuilderContinuation {
	return func(b *cryptobyte.Builder) {
		b.AddBytes([]byte{0, 43, 0, 5, 4, 3, 4, 3, 3}) // TLS 1.3 and 1.2
		if name != "" {
			b.AddUint16(0) // server_name, RFC 6066 §3
			b.AddUint16LengthPrefixed(list16(hostName(name)))
		}
		if len(protocols) > 0 {
			b.AddUint16(16) // application_layer_protocol_negotiation, RFC 7301 §3.1
			b.AddUint16LengthPrefixed(list16(protocolNames(protocols)))
		}
		if ech {
			b.AddBytes([]byte{0xfe, 0x0d, 0, 1, 0}) // encrypted_client_hello
		}
	}
}

// list16 writes a list behind two bytes with its length.
func list16(items cryptobyte.BuilderContinuation) cryptobyte.BuilderContinuation {
	return func(b *cryptobyte.Builder) { b.AddUint16LengthPrefixed(items) }
}

func hostName(name string) cryptobyte.BuilderContinuation {
	return func(b *cryptobyte.Builder) {
		b.AddUint8(0) // the type host_name
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(name)) })
	}
}

func protocolNames(protocols []string) cryptobyte.BuilderContinuation {
	return func(b *cryptobyte.Builder) {
		for _, protocol := range protocols {
			b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(protocol)) })
		}
	}
}
