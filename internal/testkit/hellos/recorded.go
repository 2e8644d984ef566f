package hellos

import (
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// handshakeHeader is the length of a handshake message without its body.
const handshakeHeader = 4

//go:embed data/*.bin data/index.json
var data embed.FS

// Recording is the first flight of a real client and what it is known to contain.
type Recording struct {
	// Name is the client with its version, such as "curl-7.88-h2".
	Name string
	// Bytes is the flight: records that end with the hello.
	Bytes []byte
	// ServerName is empty when the client sent none.
	ServerName string
	// ALPN is nil when the client sent none.
	ALPN []string
	ECH  bool
	// SupportedVersions are the bytes of the list; nil when the client sent none.
	SupportedVersions []byte
	// Records is the number of TLS records.
	Records int
	// Hello is the length of the handshake message, its header included.
	Hello int
}

// row is what index.json says about one file. Hello is the length of the message's body.
type row struct {
	Bytes             int      `json:"bytes"`
	Records           int      `json:"records"`
	Hello             int      `json:"hello"`
	ServerName        string   `json:"sni"`
	ALPN              []string `json:"alpn"`
	ECH               bool     `json:"ech"`
	SupportedVersions []string `json:"supported_versions"`
}

// Recorded returns all recordings, sorted by name. The slice is the caller's, the bytes in it are shared.
func Recorded() []Recording {
	return slices.Clone(load())
}

// Find returns the recording with this name and panics when there is none.
func Find(name string) Recording {
	i := slices.IndexFunc(load(), func(r Recording) bool { return r.Name == name })
	if i < 0 {
		panic("hellos: no recording " + name)
	}
	return load()[i]
}

var load = sync.OnceValue(func() []Recording {
	var index map[string]row
	if err := json.Unmarshal(read("index.json"), &index); err != nil {
		panic(fmt.Sprintf("hellos: reading index.json: %v", err))
	}
	var all []Recording
	for _, file := range slices.Sorted(maps.Keys(index)) {
		all = append(all, index[file].recording(file))
	}
	return all
})

func (r row) recording(file string) Recording {
	flight := read(file)
	if len(flight) != r.Bytes {
		panic(fmt.Sprintf("hellos: %s has %d bytes, the index says %d", file, len(flight), r.Bytes))
	}
	versions, err := hex.DecodeString(strings.Join(r.SupportedVersions, ""))
	if err != nil {
		panic(fmt.Sprintf("hellos: versions of %s: %v", file, err))
	}
	rec := Recording{
		Name: strings.TrimSuffix(file, ".bin"), Bytes: flight, ServerName: r.ServerName, ECH: r.ECH,
		Records: r.Records, Hello: handshakeHeader + r.Hello,
	}
	if len(r.ALPN) > 0 {
		rec.ALPN = r.ALPN
	}
	if len(versions) > 0 {
		rec.SupportedVersions = versions
	}
	return rec
}

func read(file string) []byte {
	b, err := data.ReadFile("data/" + file)
	if err != nil {
		panic(fmt.Sprintf("hellos: %v", err))
	}
	return b
}
