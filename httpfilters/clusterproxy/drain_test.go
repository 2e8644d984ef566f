package clusterproxy

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// TestDrainedAnswers takes an endpoint out while it answers: what may take long ends, and says nothing about the endpoint.
func TestDrainedAnswers(t *testing.T) {
	drain := cluster.Change{State: "drain", Deadline: time.Nanosecond}
	for _, tc := range []struct {
		name string
		// length is that of the answer; -1 if it isn't told.
		length int
		http2  bool
		order  cluster.Change
		// encoding is how the endpoint says that it answers.
		encoding string
		cut      bool
	}{
		{name: "stream", length: -1, order: drain, cut: true},
		{name: "stream_of_HTTP2", length: -1, http2: true, order: drain, cut: true},
		{name: "stream_unpacked_on_the_way", length: -1, order: drain, encoding: "gzip", cut: true},
		{name: "download", length: longAnswer, order: drain, cut: true},
		{name: "disabled", length: -1, order: cluster.Change{State: "disabled"}, cut: true},
		{name: "without_a_deadline", length: -1, order: cluster.Change{State: "drain"}},
		{name: "short", length: longAnswer - 1, order: drain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			release := make(chan struct{})
			b := secure(t, tc.http2, func(w http.ResponseWriter, r *http.Request) {
				if tc.length >= 0 {
					w.Header().Set("Content-Length", strconv.Itoa(tc.length))
				}
				if tc.encoding != "" {
					w.Header().Set("Content-Encoding", tc.encoding)
				}
				fmt.Fprint(w, "begin")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-release:
					_, _ = io.CopyN(w, zeros{}, int64(max(tc.length-len("begin"), 1)))
				case <-r.Context().Done():
				}
			})
			finish := sync.OnceFunc(func() { close(release) })
			t.Cleanup(finish)
			s := newSite(t, web([]string{b.address}, object{"tls": object{"insecure_skip_verify": true}, "passive": object{"fall": 9}}), nil)
			got := make(chan reply, 1)
			go func() { got <- s.get(t) }()
			eventually(t, "request under way", func() bool {
				st, _ := cluster.StatusOf("web")
				return b.requests.Load() == 1 && st.Endpoints[0].Active == 1
			})
			if err := cluster.Override("web", b.address, tc.order); err != nil {
				t.Fatal(err)
			}
			if tc.cut {
				eventually(t, "end of the answer", func() bool { return len(got) > 0 })
			}
			finish()
			if r := <-got; (r.err != nil) != tc.cut || r.status != 0 && r.status != http.StatusOK {
				t.Errorf("got %d with %d bytes, %v, want it cut: %v", r.status, len(r.body), r.err, tc.cut)
			}
			s.idle(t)
			if got := failuresOf(t, b.address); got != 0 {
				t.Errorf("got a streak of %d failures, want 0", got)
			}
		})
	}
}

// zeros is a reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestDrainedWithASlowClient has a client that doesn't take what it is sent: what is counted at the endpoint ends all the same.
func TestDrainedWithASlowClient(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) })
	s := newSite(t, web([]string{b.address}, nil), nil)
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := cluster.Override("web", b.address, cluster.Change{State: "disabled"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end at the endpoint", func() bool {
		st, _ := cluster.StatusOf("web")
		return st.Endpoints[0].Active == 0 && st.Connections == 0
	})
	if _, err := io.Copy(io.Discard, res.Body); err == nil || strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "unexpected") {
		t.Errorf("got %v, want an answer that is cut", err)
	}
	s.idle(t)
}
