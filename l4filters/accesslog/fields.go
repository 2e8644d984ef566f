package accesslog

import (
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	// unknown stands where there is nothing to say, so that each line has the same columns.
	unknown = "-"
	// maxProtocols is how many bytes of a client's protocol list a line has. A list of browsers has some ten.
	maxProtocols = 256
	// cut stands at the end of a list of which there is more.
	cut = "..."
)

// fields is what a line says about a session that has ended. It goes into the encoder directly: a list of fields first
// would cost more than all other filters together.
type fields struct {
	*session.Session
	reason session.CloseReason
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (l fields) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	client := l.Client.String()
	name, protocols := unknown, unknown
	if l.Hello != nil {
		name, protocols = known(l.Hello.ServerName), known(bounded(session.FormatALPN(l.Hello.ALPN)))
	}
	enc.AddString("id", l.ID())
	enc.AddString("remote", client)
	enc.AddString("listener", l.Listener.String())
	enc.AddString("server_name", name)
	enc.AddString("alpn", protocols)
	enc.AddString("protocol", known(l.Protocol))
	enc.AddString("pattern", known(l.Pattern))
	enc.AddString("cluster", known(l.Cluster))
	enc.AddString("upstream", known(l.Upstream))
	enc.AddInt64("bytes_in", l.BytesIn)
	enc.AddInt64("bytes_out", l.BytesOut)
	enc.AddDuration("duration", time.Since(l.Start))
	enc.AddDuration("preread", l.PrereadTime)
	enc.AddDuration("connect", l.ConnectTime)
	enc.AddDuration("relay", l.RelayTime)
	enc.AddString("reason", l.reason.String())
	return l.rare(enc, client)
}

// rare writes what most lines don't have.
func (l fields) rare(enc zapcore.ObjectEncoder, client string) error {
	if l.Peer != l.Client && l.Peer.String() != client {
		enc.AddString("peer", l.Peer.String())
	}
	if l.Attempts > 1 {
		enc.AddInt("attempts", l.Attempts)
	}
	if l.Routed && l.Reason != preread.None {
		enc.AddString("fallback", l.Reason.String())
	}
	if len(l.Tags) > 0 {
		return enc.AddObject("tags", tags(l.Tags))
	}
	return nil
}

func known(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

// bounded cuts text, which is ASCII, to the length that a line has room for.
func bounded(text string) string {
	if len(text) <= maxProtocols {
		return text
	}
	return text[:maxProtocols-len(cut)] + cut
}

// tags writes the tags of a route as an object.
type tags map[string]string

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (t tags) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for key, value := range t {
		enc.AddString(key, value)
	}
	return nil
}
