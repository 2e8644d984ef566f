package sockopt

import (
	"errors"
	"net"
	"testing"
	"time"
)

// shown is a wrapper that shows what it wraps, hidden one that does not.
type (
	shown  struct{ net.Conn }
	hidden struct{ net.Conn }
)

func (s shown) NetConn() net.Conn { return s.Conn }

// tcpPair returns both ends of a TCP connection.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err = net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err = listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// recorder is a connection that remembers what it was told about probes.
type recorder struct {
	net.Conn
	got []net.KeepAliveConfig
	err error
}

func (r *recorder) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	r.got = append(r.got, config)
	return r.err
}

func TestKeepAliveConfig(t *testing.T) {
	for _, tc := range []struct {
		name     string
		interval time.Duration
		want     []net.KeepAliveConfig
	}{
		{"as_is", 0, nil},
		{"off", -1, []net.KeepAliveConfig{{Idle: -1, Interval: -1, Count: -1}}},
		{"on", 7 * time.Second, []net.KeepAliveConfig{{Enable: true, Idle: 7 * time.Second, Interval: 7 * time.Second}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r recorder
			if err := (KeepAlive{Interval: tc.interval}).Apply(shown{shown{&r}}); err != nil {
				t.Fatal(err)
			}
			if len(r.got) != len(tc.want) || len(r.got) == 1 && r.got[0] != tc.want[0] {
				t.Errorf("got %+v, want %+v", r.got, tc.want)
			}
		})
	}
}

func TestApplyFails(t *testing.T) {
	r := recorder{err: errors.New("no")}
	if err := (KeepAlive{Interval: time.Second}).Apply(&r); !errors.Is(err, r.err) {
		t.Errorf("got %v, want %v", err, r.err)
	}
	client, _ := tcpPair(t)
	client.Close()
	if err := (KeepAlive{Interval: time.Second}).Apply(client); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

// TestWithoutTCP checks that there is nothing to set and nothing to read where there is no TCP.
func TestWithoutTCP(t *testing.T) {
	pipe, _ := net.Pipe()
	defer pipe.Close()
	client, _ := tcpPair(t)
	for name, conn := range map[string]net.Conn{"pipe": pipe, "hidden": hidden{client}, "shows_nothing": shown{}, "nil": nil} {
		t.Run(name, func(t *testing.T) {
			if err := (KeepAlive{Interval: time.Second, UserTimeout: time.Second}).Apply(conn); err != nil {
				t.Errorf("got %v", err)
			}
			if got, ok := SinceLastByte(conn); ok {
				t.Errorf("got %v", got)
			}
		})
	}
}
