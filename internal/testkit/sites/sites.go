// Package sites serves HTTP handlers in tests, and has connections to them on which a test writes what it likes.
package sites

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// Patience is how long a test waits for what must come.
const Patience = 30 * time.Second

// Serve has a handler answer by HTTP/1, without TLS, until the test ends. The server logs nothing.
func Serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	return serve(t, h, false)
}

// ServeBoth is Serve by HTTP/2 too. Such a server answers to nothing before it has as many bytes as HTTP/2 begins with.
func ServeBoth(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	return serve(t, h, true)
}

func serve(t testing.TB, h http.Handler, http2 bool) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(http2)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// Status returns the status with which Caddy answers an error of a handler.
func Status(err error) int {
	if failed, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		return failed.StatusCode
	}
	return http.StatusInternalServerError
}

// Conn is a connection to a server. Reader reads from it.
type Conn struct {
	net.Conn
	Reader *bufio.Reader
}

// Dial connects to a server, until the test ends.
func Dial(t testing.TB, server *httptest.Server) *Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	return &Conn{conn, bufio.NewReader(conn)}
}
