package integration

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"
)

func init() {
	caddy.RegisterModule(&sight{})
	caddy.RegisterModule(&fault{})
	caddy.RegisterModule(&logWriter{})
}

// sighting is what a `sight` handler saw of a connection, before and after the handlers behind it.
type sighting struct {
	// Remote is what the connection itself gives as its remote address.
	Remote string
	// Before and After are values of placeholders.
	Before, After map[string]string
}

// sightings are those that no test has taken yet.
var sightings = make(chan sighting, 1<<12)

func drainSightings() {
	for {
		select {
		case <-sightings:
		default:
			return
		}
	}
}

// placeholders are the ones that a sighting holds.
var placeholders = []string{
	"l4.conn.remote_addr", "l4.sluice.client", "l4.sluice.sni", "l4.sluice.alpn", "l4.sluice.ech", "l4.sluice.pattern",
	"l4.sluice.reason", "l4.sluice.close_reason", "l4.sluice.upstream", "l4.sluice.bytes_in", "l4.sluice.bytes_out",
	"l4.sluice.hello_size", "l4.sluice.hello_records", "l4.sluice.tags.team", "l4.sluice.tags.tier",
}

// sight is a handler that notes what it sees. It stands in a route like a filter.
type sight struct{}

func (*sight) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.sight", New: func() caddy.Module { return new(sight) }}
}

func (*sight) Handle(cx *layer4.Connection, next layer4.Handler) error {
	s := sighting{Remote: cx.RemoteAddr().String(), Before: look(cx)}
	err := next.Handle(cx)
	s.After = look(cx)
	sightings <- s
	return err
}

func look(cx *layer4.Connection) map[string]string {
	values := make(map[string]string)
	for _, name := range placeholders {
		values[name] = cx.Replacer().ReplaceAll("{"+name+"}", "")
	}
	return values
}

func (*sight) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// fault is a handler that panics.
type fault struct{}

func (*fault) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.fault", New: func() caddy.Module { return new(fault) }}
}

func (*fault) Handle(*layer4.Connection, layer4.Handler) error {
	var none []int
	return json.Unmarshal(nil, &none[1])
}

func (*fault) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// logWriter is a log output that keeps what Caddy logs.
type logWriter struct{}

func (*logWriter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.sluicetest", New: func() caddy.Module { return new(logWriter) }}
}

func (*logWriter) String() string                                { return "sluicetest" }
func (*logWriter) WriterKey() string                             { return "sluicetest" }
func (*logWriter) OpenWriter() (io.WriteCloser, error)           { return records, nil }
func (*logWriter) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// logRecord is one line of the log.
type logRecord struct {
	Level, Logger, Msg string
	// Line is the whole of it.
	Line string
}

// logBook keeps the log of the running Caddy.
type logBook struct {
	// mu guards list.
	mu   sync.Mutex
	list []logRecord
}

var records = new(logBook)

// Write takes one line.
func (b *logBook) Write(line []byte) (int, error) {
	var r logRecord
	if err := json.Unmarshal(line, &r); err != nil {
		return 0, err
	}
	r.Line = string(line)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, r)
	return len(line), nil
}

// Close does nothing: the book outlives the configs.
func (b *logBook) Close() error { return nil }

func (b *logBook) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = nil
}

// find returns the records that match says yes to.
func (b *logBook) find(match func(logRecord) bool) []logRecord {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []logRecord
	for _, r := range b.list {
		if match(r) {
			found = append(found, r)
		}
	}
	return found
}

// count returns how many records have this message.
func (b *logBook) count(msg string) int {
	return len(b.find(func(r logRecord) bool { return r.Msg == msg }))
}

// tail returns the last n lines.
func (b *logBook) tail(n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for _, r := range b.list[max(0, len(b.list)-n):] {
		lines = append(lines, r.Line)
	}
	return lines
}

// Interface guards
var (
	_ layer4.NextHandler = (*sight)(nil)
	_ layer4.NextHandler = (*fault)(nil)
	_ caddy.WriterOpener = (*logWriter)(nil)
)
