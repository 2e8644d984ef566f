package integration

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// webSocketKey is the key of the example in RFC 6455 section 1.3.
const webSocketKey = "dGhlIHNhbXBsZSBub25jZQ=="

// acceptKey returns the answer to a key (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// visitors are the clients of an outage, and what became of their requests.
type visitors struct {
	*lab
	ledger *ledger
	site   string
	lines  string
	over   atomic.Bool
	going  sync.WaitGroup
	// reloads counts the changes of the config. It belongs to the test's goroutine.
	reloads int64
	tokens  atomic.Int64

	gets, posts, postsFailed, sockets, socketsCut, lineCount, linesCut atomic.Int64
	// askedAgain counts what a reload has dropped before it was answered.
	askedAgain atomic.Int64
}

func (c *visitors) token() string { return fmt.Sprintf("token-%d", c.tokens.Add(1)) }

// start begins n clients that do something again and again.
func (c *visitors) start(n int, do func()) {
	for range n {
		c.going.Go(func() {
			for !c.over.Load() && !c.Failed() {
				do()
				time.Sleep(10 * time.Millisecond) // shapes the load; nothing waits for it
			}
		})
	}
}

// haveDone says whether n of each kind were served.
func (c *visitors) haveDone(n int64) bool {
	return min(c.gets.Load(), c.posts.Load()-c.postsFailed.Load(), c.sockets.Load(), c.lineCount.Load()) >= n
}

// client returns a client that speaks HTTP/1.1, or HTTP/2 without TLS.
func (c *visitors) client(version2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!version2)
	protocols.SetUnencryptedHTTP2(version2)
	t := &http.Transport{Protocols: protocols, MaxIdleConnsPerHost: 64}
	c.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: again{t, dropped, &c.askedAgain}, Timeout: patience}
}

// ask makes a request, and returns the status, or an error.
func (c *visitors) ask(client *http.Client, method, token string, body []byte) (status int, answer string, err error) {
	req, err := http.NewRequest(method, "http://"+c.site+"/", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("X-Token", token)
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// get is a request that can be made again: it must succeed, whatever the backends do.
func (c *visitors) get(client *http.Client) {
	token := c.token()
	status, answer, err := c.ask(client, http.MethodGet, token, nil)
	c.gets.Add(1)
	if err != nil || status != http.StatusOK || answer != token+" 0" {
		c.Errorf("GET %s: got %d %q, %v", token, status, answer, err)
	}
}

// post is a request that must not be made twice. It may fail.
func (c *visitors) post(client *http.Client) {
	token := c.token()
	status, answer, err := c.ask(client, http.MethodPost, token, make([]byte, 10_000))
	c.posts.Add(1)
	by := c.ledger.by(token)
	if len(by) > 1 {
		c.Errorf("POST %s was done by %v", token, by)
	}
	if err != nil || status != http.StatusOK {
		c.postsFailed.Add(1)
		return
	}
	if answer != token+" 10000" || len(by) != 1 {
		c.Errorf("POST %s: got %q, done by %v", token, answer, by)
	}
}

// socket is a WebSocket: it must come about; it may be cut when its backend is.
func (c *visitors) socket() {
	conn, r, err := c.upgrade()
	for asks := 1; asks < maxAsks && dropped(err); asks++ {
		c.askedAgain.Add(1)
		time.Sleep(pauseToAsk)
		conn, r, err = c.upgrade()
	}
	if err != nil {
		c.Errorf("WebSocket: %v", err)
		return
	}
	defer conn.Close()
	c.sockets.Add(1)
	for range 10 {
		if !sendsBack(conn, r, c.token()) {
			c.socketsCut.Add(1)
			return
		}
		time.Sleep(20 * time.Millisecond) // shapes the load; nothing waits for it
	}
}

// upgrade makes a connection and has it upgraded.
func (c *visitors) upgrade() (net.Conn, *bufio.Reader, error) {
	conn, err := net.Dial("tcp", c.site)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", c.site, webSocketKey)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("got %s", res.Status)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, r, nil
}

// line is a TCP connection: it must be connected; it may be cut when its backend is.
func (c *visitors) line() {
	conn, err := net.Dial("tcp", c.lines)
	if err != nil {
		c.Errorf("TCP: %v", err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	c.lineCount.Add(1)
	if !sendsBack(conn, bufio.NewReader(conn), c.token()) {
		c.linesCut.Add(1)
	}
}

// sendsBack says whether a line comes back.
func sendsBack(w io.Writer, r *bufio.Reader, text string) bool {
	if _, err := io.WriteString(w, text+"\n"); err != nil {
		return false
	}
	got, err := r.ReadString('\n')
	return err == nil && strings.TrimSpace(got) == text
}
