package clusterproxy

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// TestStatusRetry checks that answers with certain statuses are tried again before any of them is passed on.
func TestStatusRetry(t *testing.T) {
	busy := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Busy", "yes")
		http.Error(w, "busy", http.StatusServiceUnavailable)
	})
	live := newBackend(t, echo)
	retry := retryAll(object{"status": []string{"503"}})
	t.Run("H116_D82_other_endpoint", func(t *testing.T) {
		s := newSite(t, web([]string{busy.address, live.address}, retry), nil)
		r := s.do(t, "POST", "hello")
		r.want(t, http.StatusOK)
		if r.body != "POST hello" || r.header.Get("X-Busy") != "" {
			t.Errorf("got %q with %v", r.body, r.header)
		}
		s.idle(t)
	})
	t.Run("last_answer_stands", func(t *testing.T) {
		before := busy.requests.Load()
		s := newSite(t, web([]string{busy.address}, retryAll(object{"status": []string{"503"}, "max": 1})), nil)
		r := s.get(t)
		r.want(t, http.StatusServiceUnavailable)
		if r.body != "busy\n" {
			t.Errorf("got %q, want the answer of the endpoint", r.body)
		}
		if got := busy.requests.Load() - before; got != 2 {
			t.Errorf("got %d requests, want 2", got)
		}
		s.idle(t)
	})
	t.Run("other_status", func(t *testing.T) {
		s := newSite(t, web([]string{busy.address, live.address}, retryAll(object{"status": []string{"502"}})), nil)
		s.get(t).want(t, http.StatusServiceUnavailable)
	})
}

// TestStandingAnswer checks that an answer which isn't tried again counts for as long as the client gets it, but not as a
// retry.
func TestStandingAnswer(t *testing.T) {
	release := make(chan struct{})
	busy := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "busy")
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	settings := with(retryAll(object{"status": []string{"503"}, "max": 1}), object{"passive": object{"fall": 9}})
	s := newSite(t, web([]string{busy.address}, settings), nil)
	res, err := s.Client().Do(s.request(t, "POST", "/", "hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if st := statusOf(t, "web"); st.Requests != 1 || st.Endpoints[0].Active != 1 || st.Retries != 0 {
		t.Errorf("got %+v, want the answer counted at the endpoint, and as no retry", st)
	}
	close(release)
	if body, err := io.ReadAll(res.Body); string(body) != "busy" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	s.idle(t)
	// Both answers were a failure of one endpoint, which has the blame once.
	if got := busy.requests.Load(); got != 2 || failuresOf(t, busy.address) != 1 {
		t.Errorf("got %d requests and a streak of %d failures, want 2 and 1", got, failuresOf(t, busy.address))
	}
}

// TestTrialByStatus checks that a trial is over with the head of an answer that isn't a failure, whatever its status.
func TestTrialByStatus(t *testing.T) {
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	var works atomic.Bool
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		if !works.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	live := newBackend(t, echo)
	s := newSite(t, web([]string{b.address, live.address}, object{"passive": object{"fall": 1, "retry_after": int64(ample)}}), nil)
	s.get(t).want(t, http.StatusInternalServerError)
	works.Store(true)
	state := func() string { return statusOf(t, "web").Endpoints[0].State }
	if got := state(); got != "unhealthy_passive" {
		t.Fatalf("got %s, want unhealthy_passive", got)
	}
	done := make(chan reply, 1)
	go func() {
		for {
			if r := s.get(t); r.status != http.StatusOK {
				done <- r
				return
			}
		}
	}()
	eventually(t, "healthy endpoint while it answers", func() bool { return state() == "healthy" })
	end()
	(<-done).want(t, http.StatusNotFound)
	s.idle(t)
}

// TestLastAnswerStands checks that an answer which is tried again is passed on if it takes out the last endpoint.
func TestLastAnswerStands(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "back soon")
	})
	s := newSite(t, web([]string{b.address}, object{
		"on_no_endpoint": "refuse", "passive": object{"fall": 1}, "retry": object{"max": 1, "status": []string{"503"}},
	}), nil)
	if r := s.get(t); r.status != http.StatusServiceUnavailable || r.body != "back soon" {
		t.Errorf("got %d %q, want the endpoint's answer", r.status, r.body)
	}
	if got := s.placeholder("attempts") + s.placeholder("retries"); got != "10" {
		t.Errorf("got attempts and retries %s, want 10", got)
	}
	s.idle(t)
	st, _ := cluster.StatusOf("web")
	if e := st.Endpoints[0]; e.State == "healthy" || e.Cause == "" {
		t.Errorf("got state %s, cause %q", e.State, e.Cause)
	}
}
