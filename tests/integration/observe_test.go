package integration

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// metricPrefix is common to the metrics of the preread.
const metricPrefix = "caddy_sluice_preread_"

// handled counts the connections that caddy-l4 has done with. It isn't a metric but comes from the log: the counters
// of a connection are final when its handlers have returned.
const handled = "handled"

// deserted is what Sluice logs on a busy machine, where caddy-l4 can't keep up: then it accepts connections in its place,
// and the log doesn't say when these are done with.
const deserted = "layer4 server does not accept connections, accepting them in its place"

// counts are values of metrics by series, without the common prefix.
type counts map[string]float64

// rejected and fallback are the series of a reason.
func rejected(reason string) string { return `rejected_total{reason="` + reason + `"}` }
func fallback(reason string) string { return `fallback_total{reason="` + reason + `"}` }

// counts reads the counters of the preread, and its gauge of connections, from the admin endpoint.
func (p *proxy) counts() counts {
	p.Helper()
	c := counts{handled: float64(records.count("stopped handling connection; connection stats"))}
	for series, value := range p.metrics() {
		name, ours := strings.CutPrefix(series, metricPrefix)
		if ours && !strings.Contains(name, "_bucket{") && !strings.HasPrefix(name, "hello_") && !strings.HasSuffix(name, "_sum") &&
			name != "memory_bytes" {
			c[name] = value
		}
	}
	return c
}

// metric returns the value of one series, by its full name with labels; 0 when it isn't there.
func (p *proxy) metric(series string) float64 {
	p.Helper()
	return p.metrics()[series]
}

// metrics reads all series from the admin endpoint.
func (p *proxy) metrics() map[string]float64 {
	p.Helper()
	res, err := p.admin.Get("http://caddy/metrics")
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	series := make(map[string]float64)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "#") || !ok {
			continue
		}
		if strings.Contains(value, " ") { // a label value with a space in it
			i := strings.LastIndexByte(lines.Text(), ' ')
			name, value = lines.Text()[:i], lines.Text()[i+1:]
		}
		if series[name], err = strconv.ParseFloat(value, 64); err != nil {
			p.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil && err != io.EOF {
		p.Fatal(err)
	}
	return series
}

// since returns what has changed.
func (c counts) since(base counts) counts {
	diff := make(counts)
	for series, value := range c {
		if d := value - base[series]; d != 0 {
			diff[series] = d
		}
	}
	return diff
}

func (c counts) String() string {
	var words []string
	for _, series := range slices.Sorted(maps.Keys(c)) {
		words = append(words, fmt.Sprintf("%s %v", series, c[series]))
	}
	return strings.Join(words, ", ")
}

// settle waits until n connections are over and checks that since base these counters have moved, and no others. Each
// connection that a preread handled must be in the duration once.
func (p *proxy) settle(base counts, n int, want counts) {
	p.Helper()
	want = maps.Clone(want)
	if want == nil {
		want = make(counts)
	}
	want[handled], want["duration_seconds_count"] = float64(n), float64(n)
	var got counts
	p.eventually(fmt.Sprintf("%d connections are over", n), func() (string, bool) {
		got = p.counts().since(base)
		return got.String(), got[handled] >= float64(n) || records.count(deserted) > 0 && p.metric("caddy_sluice_session_active") == 0
	})
	if records.count(deserted) > 0 {
		got = p.counts().since(base)
		want[handled] = got[handled]
	}
	if !maps.Equal(got, want) {
		p.Errorf("counters: got %v, want %v", got, want)
	}
}

// await waits until since base these counters have moved, and no others, with connections still open.
func (p *proxy) await(base, want counts) {
	p.Helper()
	p.eventually("counters: want "+want.String(), func() (string, bool) {
		got := p.counts().since(base)
		return got.String(), maps.Equal(got, want)
	})
}

// quiet checks that nothing but debug lines came from the handlers of connections.
func (p *proxy) quiet() {
	p.Helper()
	for _, r := range p.loud() {
		p.Errorf("log: got %s", r.Line)
	}
}

// loud returns the records above Debug that are about connections.
func (p *proxy) loud() []logRecord {
	return records.find(func(r logRecord) bool {
		return strings.HasPrefix(r.Logger, "layer4") && r.Level != "debug"
	})
}

// sighting returns what a `sight` handler saw, in the order in which they returned.
func (p *proxy) sighting() sighting {
	p.Helper()
	select {
	case s := <-sightings:
		return s
	case <-time.After(patience):
		p.Fatal("no connection went through the sight handler")
		return sighting{}
	}
}

// expectValues checks values of placeholders.
func (p *proxy) expectValues(got, want map[string]string) {
	p.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got["l4."+name] != want[name] {
			p.Errorf("{l4.%s}: got %q, want %q", name, got["l4."+name], want[name])
		}
	}
}
