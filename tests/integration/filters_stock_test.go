package integration

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // RFC 6455 section 4.2.2 asks for it
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// echoSocket takes up any WebSocket, and says back what it gets.
func echoSocket(w http.ResponseWriter, r *http.Request) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see above
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	_, _ = io.Copy(conn, buf)
}

// TestH57_WebSocketPassesFilters: a filter for bodies has no part in a WebSocket, behind Caddy's reverse proxy and ours.
func TestH57_WebSocketPassesFilters(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(echoSocket))
	defer backend.Close()
	to := strings.TrimPrefix(backend.URL, "http://")
	l := newLab(t)
	stock, ours := l.freeAddr(), l.freeAddr()
	l.run(`
	sluice {
		cluster sockets {
			endpoints `+to+`
		}
	}
	`, fmt.Sprintf(`
	http://%s {
		filters {
			json_field model {
				header X-Model
			}
		}
		reverse_proxy %s
	}
	http://%s {
		filters {
			json_field model {
				header X-Model
			}
		}
		cluster_proxy sockets
	}
	`, stock, to, ours))
	for name, addr := range map[string]string{"reverse_proxy": stock, "cluster_proxy": ours} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", addr)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("got %v, %v, want 101", res, err)
			}
			fmt.Fprint(conn, "hello\n")
			if got, err := in.ReadString('\n'); got != "hello\n" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestFiltersBehindRequestBody: the limit of Caddy's own `request_body` is one for filters too, and error routes see it.
func TestFiltersBehindRequestBody(t *testing.T) {
	l := newLab(t)
	addr := l.freeAddr()
	l.run("", fmt.Sprintf(`
	http://%s {
		request_body {
			max_size 32KB
		}
		filters {
			json_field model {
				header X-Model
			}
		}
		respond ok
		handle_errors {
			respond "{err.status_code}: {err.message}" {err.status_code}
		}
	}
	`, addr))
	for name, length := range map[string]int64{"declared": 0, "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, "http://"+addr, strings.NewReader(strings.Repeat(" ", 40_000)))
			if err != nil {
				t.Fatal(err)
			}
			if length < 0 {
				req.ContentLength = length
			}
			res, err := freshClient().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || !strings.HasPrefix(string(body), "413: ") {
				t.Errorf("got %s, %q, %v", res.Status, body, err)
			}
		})
	}
}

// TestStreamsThatEnd: a body that streams by a filter and stalls gets 408, and one that the filter refuses is answered at once,
// also if the client then says nothing; behind Caddy's reverse proxy and ours, from backends that read the body and don't.
func TestStreamsThatEnd(t *testing.T) {
	l := newLab(t)
	reads, silent := make(chan struct{}), make(chan struct{})
	defer close(silent)
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reads" {
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		select {
		case <-silent:
		case <-reads:
		}
	}))
	defer backend.Close()
	defer close(reads)
	to := strings.TrimPrefix(backend.URL, "http://")
	sites := map[string]map[int]string{"reverse_proxy": {}, "cluster_proxy": {}}
	config := ""
	for status, timeout := range map[int]string{http.StatusRequestTimeout: "1s", http.StatusUnprocessableEntity: "1m"} {
		for name, handler := range map[string]string{"reverse_proxy": "reverse_proxy " + to, "cluster_proxy": "cluster_proxy backends"} {
			sites[name][status] = l.freeAddr()
			config += fmt.Sprintf("http://%s {\nfilters {\nbody_timeout %s\nword_limit 5\n}\n%s\n}\n", sites[name][status], timeout, handler)
		}
	}
	l.run(`
	sluice {
		cluster backends {
			endpoints `+to+`
		}
	}
	`, config)
	for name, addrs := range sites {
		for path, want := range map[string]map[string]int{
			"/reads":  {"one two": http.StatusRequestTimeout, "one two ,three four five six ": http.StatusUnprocessableEntity},
			"/silent": {"one two": http.StatusRequestTimeout, "one two ,three four five six ": http.StatusUnprocessableEntity},
		} {
			for sent, status := range want {
				t.Run(fmt.Sprint(name, path, status), func(t *testing.T) {
					addr := addrs[status]
					conn, err := net.Dial("tcp", addr)
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					// One that is refused is answered long before body_timeout is over.
					if err := conn.SetDeadline(time.Now().Add(soon)); err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n", path, addr)
					for words := range strings.SplitAfterSeq(sent, ",") {
						time.Sleep(50 * time.Millisecond) // so that the proxy is under way
						fmt.Fprintf(conn, "%x\r\n%s\r\n", len(words), words)
					}
					res, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil || res.StatusCode != status {
						t.Fatalf("got %v, %v, want %d", res, err, status)
					}
				})
			}
		}
	}
}
