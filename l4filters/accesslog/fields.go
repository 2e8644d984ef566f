package accesslog

import (
	"time"

	"go.uber.org/zap"
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

// fields returns what a line says about a session that has ended.
func fields(s *session.Session, reason session.CloseReason) []zap.Field {
	name, protocols := unknown, unknown
	if s.Hello != nil {
		name, protocols = known(s.Hello.ServerName), known(bounded(session.FormatALPN(s.Hello.ALPN)))
	}
	client := s.Client.String()
	// Room for all, of which the last three are rare.
	list := append(make([]zap.Field, 0, 20),
		zap.String("id", s.ID()),
		zap.String("remote", client),
		zap.String("listener", s.Listener.String()),
		zap.String("server_name", name),
		zap.String("alpn", protocols),
		zap.String("protocol", known(s.Protocol)),
		zap.String("pattern", known(s.Pattern)),
		zap.String("cluster", known(s.Cluster)),
		zap.String("upstream", known(s.Upstream)),
		zap.Int64("bytes_in", s.BytesIn),
		zap.Int64("bytes_out", s.BytesOut),
		zap.Duration("duration", time.Since(s.Start)),
		zap.Duration("preread", s.PrereadTime),
		zap.Duration("connect", s.ConnectTime),
		zap.Duration("relay", s.RelayTime),
		zap.String("reason", reason.String()),
	)
	if s.Peer != s.Client && s.Peer.String() != client {
		list = append(list, zap.String("peer", s.Peer.String()))
	}
	if s.Routed && s.Reason != preread.None {
		list = append(list, zap.String("fallback", s.Reason.String()))
	}
	if len(s.Tags) > 0 {
		list = append(list, zap.Object("tags", tags(s.Tags)))
	}
	return list
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
