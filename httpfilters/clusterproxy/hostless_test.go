package clusterproxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestNoHost checks that a request of HTTP/1.0 that has no Host goes on with the address of the endpoint, with and without a
// PROXY header.
func TestNoHost(t *testing.T) {
	for name, settings := range map[string]object{"plain": nil, "PROXY": {"proxy_protocol": "v1"}} {
		t.Run(name, func(t *testing.T) {
			hosts := make(chan string, 1)
			endpoint := newRaw(t, func(_ int, c net.Conn) {
				r := bufio.NewReader(c)
				if settings != nil {
					_, _ = r.ReadString('\n')
				}
				req, err := http.ReadRequest(r)
				if err != nil {
					hosts <- err.Error()
					return
				}
				hosts <- req.Host
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			})
			s := newSite(t, web([]string{endpoint.address}, settings), nil)
			s.exchange(t, lines("GET / HTTP/1.0"))
			if got := <-hosts; got != endpoint.address {
				t.Errorf("got Host %q, want %q", got, endpoint.address)
			}
		})
	}
}
