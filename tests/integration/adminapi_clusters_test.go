package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/ports"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// clusterSite is a cluster of two and a site that logs where its requests went. Its checks leave a busy machine time.
func clusterSite(addr string, endpoints ...string) (options, sites string) {
	return fmt.Sprintf(`
	sluice {
		cluster web {
			endpoints %s
			health tcp {
				interval 1s
				timeout 900ms
				rise 1
				fall 2
			}
		}
	}
	`, strings.Join(endpoints, " ")), fmt.Sprintf(`
	http://%s {
		log
		log_append endpoint {http.sluice.endpoint}
		log_append attempts {http.sluice.attempts}
		log_append replayed {http.sluice.replayed}
		log_append budget_exhausted {http.sluice.budget_exhausted}
		cluster_proxy web
	}
	`, addr)
}

// change sends a PATCH for an endpoint.
func (p *proxy) change(endpoint, body string) (status int, answer string) {
	p.Helper()
	req, err := http.NewRequest(http.MethodPatch, "http://localhost/sluice/clusters/web/endpoints/"+endpoint, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	res, err := p.admin.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// cluster returns what the admin API shows of the cluster.
func (p *proxy) cluster() (status cluster.Status) {
	p.Helper()
	p.api(http.MethodGet, "/sluice/clusters/web", &status)
	return status
}

// TestZ129_ClustersInTheAdminAPI: every endpoint is listed with its state, and readiness follows.
func TestZ129_ClustersInTheAdminAPI(t *testing.T) {
	l := newLab(t)
	b, gone := l.newMember("here", &ledger{done: make(map[string][]string)}), ports.Dead(t)
	p := l.run(clusterSite(l.freeAddr(), b.http, gone))
	p.eventually("the endpoint that is gone is unhealthy", func() (string, bool) {
		s := p.cluster()
		return fmt.Sprintf("%+v", s), s.Total == 2 && s.Healthy == 1 && len(s.Endpoints) == 2 &&
			s.Endpoints[0].State == "healthy" && s.Endpoints[0].Address == b.http && s.Endpoints[0].LastCheck.Passed &&
			s.Endpoints[1].State == "unhealthy_active" && strings.Contains(s.Endpoints[1].Cause, "refused")
	})
	var list struct {
		Clusters []cluster.Status `json:"clusters"`
	}
	if p.api(http.MethodGet, "/sluice/clusters", &list); len(list.Clusters) != 1 || list.Clusters[0].Name != "web" {
		t.Errorf("got %+v", list)
	}
	if res, body := p.api(http.MethodGet, "/sluice/ready", nil); res.StatusCode != http.StatusOK ||
		!strings.Contains(body, `"status":"ok","clusters":[{"name":"web","healthy":1,"total":2}]`) {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	for _, tc := range []struct {
		method, path string
		status       int
		text         string
	}{
		{http.MethodPost, "/sluice/clusters", http.StatusMethodNotAllowed, "POST"},
		{http.MethodPut, "/sluice/clusters/web", http.StatusMethodNotAllowed, "PUT"},
		{http.MethodGet, "/sluice/clusters/nobody", http.StatusNotFound, "no such cluster"},
		{http.MethodGet, "/sluice/clusters/web?x=1", http.StatusBadRequest, "no parameters"},
		{http.MethodGet, "/sluice/clusters/web/endpoints/192.0.2.1:1", http.StatusNotFound, "192.0.2.1:1"},
		{http.MethodGet, "/sluice/clusters/web/endpoints/" + b.http, http.StatusOK, `{"address":"` + b.http},
		{http.MethodGet, "/sluice/clusters/web/endpoints", http.StatusOK, `{"endpoints":[{"address":"` + b.http},
		{http.MethodGet, "/sluice/clusters/web/endpoints/", http.StatusOK, `{"endpoints":[{"address":"` + b.http},
		{http.MethodGet, "/sluice/clusters/nobody/endpoints", http.StatusNotFound, `there is no such cluster: \"nobody\"`},
		{http.MethodPatch, "/sluice/clusters/web/endpoints", http.StatusMethodNotAllowed, "PATCH"},
		{http.MethodDelete, "/sluice/clusters/web/endpoints/" + b.http, http.StatusNotFound, "nothing is ordered"},
		{http.MethodPost, "/sluice/ready", http.StatusMethodNotAllowed, "POST"},
		{http.MethodGet, "/sluice/ready?clusters=web", http.StatusBadRequest, "parameter clusters: is unknown: there is cluster"},
		{http.MethodGet, "/sluice/ready?cluster=web&cluster=wep", http.StatusNotFound, `there is no such cluster: \"wep\"`},
		{http.MethodGet, "/sluice/ready?cluster=", http.StatusNotFound, "there is no such cluster"},
		{http.MethodGet, "/sluice/ready?cluster=%zz", http.StatusBadRequest, "invalid URL escape"},
	} {
		if res, body := p.api(tc.method, tc.path, nil); res.StatusCode != tc.status || !strings.Contains(body, tc.text) {
			t.Errorf("%s %s: got %d %s, want %d and %q", tc.method, tc.path, res.StatusCode, body, tc.status, tc.text)
		}
	}
	b.leave()
	p.eventually("H125: not ready without an endpoint", func() (string, bool) {
		res, body := p.api(http.MethodGet, "/sluice/ready", nil)
		return body, res.StatusCode == http.StatusServiceUnavailable && strings.Contains(body, "degraded") && res.Header.Get("Retry-After") != ""
	})
}

// TestReadyOfSome: a cluster that is down counts only if it is asked for; an endpoint says which tier it has.
func TestReadyOfSome(t *testing.T) {
	l := newLab(t)
	b, gone := l.newMember("here", &ledger{done: make(map[string][]string)}), ports.Dead(t)
	options, sites := clusterSite(l.freeAddr(), b.http)
	p := l.run(strings.Replace(options, "cluster web {", fmt.Sprintf(`cluster down {
			endpoint %s {
				backup
			}
			health tcp {
				interval 100ms
				timeout 50ms
				fall 1
			}
		}
		cluster web {`, gone), 1), sites)
	p.eventually("one of two clusters is down", func() (string, bool) {
		res, body := p.api(http.MethodGet, "/sluice/ready", nil)
		return body, res.StatusCode == http.StatusServiceUnavailable && strings.Contains(body, `"clusters":[{"name":"down"`)
	})
	for query, want := range map[string]struct {
		status int
		body   string
	}{
		"?cluster=web":              {http.StatusOK, `{"status":"ok","clusters":[{"name":"web","healthy":1,"total":1}]}`},
		"?cluster=web&cluster=web":  {http.StatusOK, `{"status":"ok","clusters":[{"name":"web","healthy":1,"total":1}]}`},
		"?cluster=down":             {http.StatusServiceUnavailable, `{"status":"degraded","clusters":[{"name":"down","healthy":0,"total":1}]}`},
		"?cluster=web&cluster=down": {http.StatusServiceUnavailable, `"clusters":[{"name":"down","healthy":0,"total":1},{"name":"web"`},
	} {
		if res, body := p.api(http.MethodGet, "/sluice/ready"+query, nil); res.StatusCode != want.status || !strings.Contains(body, want.body) {
			t.Errorf("%s: got %d %s, want %d %s", query, res.StatusCode, body, want.status, want.body)
		}
	}
	for name, want := range map[string]string{"web": `"tier":0,"backup":false`, "down": `"tier":255,"backup":true`} {
		if _, body := p.api(http.MethodGet, "/sluice/clusters/"+name, nil); !strings.Contains(body, want) {
			t.Errorf("got %s, want %s", body, want)
		}
	}
}

// TestChangeEndpoint: orders hold over a reload, are shown as such, and are taken back; what is wrong is named.
func TestChangeEndpoint(t *testing.T) {
	l := newLab(t)
	g := &ledger{done: make(map[string][]string)}
	one, two, site := l.newMember("one", g), l.newMember("two", g), l.freeAddr()
	p := l.run(clusterSite(site, one.http, two.http))
	for body, want := range map[string]string{
		``:                                    "the body must be like",
		`{}`:                                  "weight or state",
		`{"state":""}`:                        "state is empty",
		`{"state":"down"}`:                    "up, drain, disabled",
		`{"weight":0}`:                        "weight 0 is out of range",
		`{"weight":-1}`:                       "the body must be like",
		`{"weight":3,"state":"up","more":1}`:  "more",
		`{"state":"drain","deadline":"-1s"}`:  "deadline",
		`{"state":"drain","deadline":"soon"}`: "deadline",
		`{"weight":3,"deadline":"1s"}`:        "deadline",
		`{"state":"` + strings.Repeat("x", 5000) + `"}`: "at most 4096 bytes",
	} {
		if status, answer := p.change(one.http, body); status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%.80s: got %d %s, want %q", body, status, answer, want)
		}
	}
	if status, answer := p.change(one.http, `{"state":"drain"}`); status != http.StatusOK || !strings.Contains(answer, `"state":"drained"`) {
		t.Errorf("got %d %s", status, answer)
	}
	if status, answer := p.change(two.http, `{"weight":7}`); status != http.StatusOK || !strings.Contains(answer, `"weight":7`) {
		t.Errorf("got %d %s", status, answer)
	}
	if err := p.load(clusterSite(site, two.http, one.http)); err != nil {
		t.Fatal(err)
	}
	client := freshClient()
	for range 20 {
		res, err := client.Get("http://" + site + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("X-Backend"); got != "two" {
			t.Errorf("got backend %q, want two: the other one is drained", got)
		}
	}
	for _, e := range p.cluster().Endpoints {
		if e.Override == nil || e.Address == two.http && e.Override.Weight != 7 || e.Address == one.http && e.Override.State != "drain" {
			t.Errorf("got %+v", e)
		}
	}
	if res, body := p.api(http.MethodDelete, "/sluice/clusters/web/endpoints/"+one.http, nil); res.StatusCode != http.StatusOK ||
		strings.Contains(body, "override") {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

// TestZ131_AccessLogFields: the access log of a site can say where a request went, and after how many attempts.
func TestZ131_AccessLogFields(t *testing.T) {
	l := newLab(t)
	b, site := l.newMember("here", &ledger{done: make(map[string][]string)}), l.freeAddr()
	p := l.run(clusterSite(site, b.http))
	res, err := freshClient().Get("http://" + site + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	p.eventually("the line of the request", func() (string, bool) {
		for _, line := range records.tail(50) {
			var entry map[string]any
			if json.Unmarshal([]byte(line), &entry) != nil || entry["msg"] != "handled request" {
				continue
			}
			got := fmt.Sprint(entry["endpoint"], entry["attempts"], entry["replayed"], entry["budget_exhausted"])
			return got, got == fmt.Sprint(b.http, 1.0, false, false)
		}
		return "no line", false
	})
}
