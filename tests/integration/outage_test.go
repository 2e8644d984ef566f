package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// outageLasts is how long the clients of TestOutage go on at least, and enough how much must have been done by then.
const (
	outageLasts = 6 * time.Second
	enough      = 20
)

// outageConfig has one cluster for HTTP and one for TCP, and a number that makes each config another one.
func outageConfig(c *visitors, backends []*member, reload int) (options, sites string) {
	var web, lines string
	for _, b := range backends {
		web += " " + b.http
		lines += " " + b.tcp
	}
	return fmt.Sprintf(`
	sluice {
		cluster web {
			endpoints %s
			health http / {
				interval 1s
				timeout 900ms
			}
			passive
			outlier {
				failure_status 5xx
				ejection_time 1s
			}
			per_try_timeout 1s
			retry {
				max 5
				status 5xx
				backoff 1ms 10ms
				budget 100%% {
					min 100
				}
			}
		}
		cluster lines {
			endpoints %s
			health tcp {
				interval 1s
				timeout 900ms
			}
			outlier {
				ejection_time 1s
			}
			retry {
				max 5
				backoff 1ms 10ms
				budget 100%% {
					min 100
				}
			}
		}
	}
	servers {
		protocols h1 h2c
	}
	layer4 {
		%s {
			route {
				forward lines
			}
		}
	}
	`, web, lines, c.lines), fmt.Sprintf(`
	http://%s {
		header X-Reload %d
		cluster_proxy web
	}
	`, c.site, reload)
}

// TestOutage has five backends: a good one, one that is killed and comes back, one that is too slow, one that answers 500,
// one that comes and goes. Clients of TCP, HTTP/1.1, HTTP/2 and WebSocket go on all the time, and the config is reloaded.
// No request is lost that could be tried again, and none is done twice that must not be.
func TestOutage(t *testing.T) {
	l := newLab(t)
	g := &ledger{done: make(map[string][]string)}
	var backends []*member
	for _, name := range []string{"good", "killed", "slow", "erring", "flapping"} {
		backends = append(backends, l.newMember(name, g))
	}
	killed, slow, erring, flapping := backends[1], backends[2], backends[3], backends[4]
	slow.delay, erring.status = 4*time.Second, http.StatusInternalServerError

	c := &visitors{lab: l, ledger: g, site: l.freeAddr(), lines: l.freeAddr()}
	p := l.run(outageConfig(c, backends, 0))
	one, two := c.client(false), c.client(true)
	c.start(4, func() { c.get(one) })
	c.start(4, func() { c.get(two) })
	c.start(2, func() { c.post(one) })
	c.start(2, func() { c.post(two) })
	c.start(4, c.socket)
	c.start(4, c.line)

	begin := time.Now()
	for step := 0; time.Since(begin) < outageLasts || !c.haveDone(enough) && time.Since(begin) < patience; step++ {
		time.Sleep(250 * time.Millisecond) // the rhythm of what goes wrong
		switch step % 8 {
		case 1:
			killed.down()
		case 5:
			killed.up()
		case 2, 6:
			flapping.leave()
		case 3, 7:
			flapping.up()
		case 4:
			c.reloads++
			if err := p.load(outageConfig(c, backends, step)); err != nil {
				t.Error(err)
			}
		}
	}
	c.over.Store(true)
	c.going.Wait()
	c.report(backends)
}

// report checks that all kinds of clients were served, and that no more was cut than backends were.
func (c *visitors) report(backends []*member) {
	c.Helper()
	interrupts := int64(0)
	for _, b := range backends {
		interrupts += b.interrupts.Load()
		c.Logf("%s: served %d, interrupted %d times", b.name, b.served.Load(), b.interrupts.Load())
	}
	c.Logf("%d GET, %d POST (%d failed), %d WebSockets (%d cut), %d TCP (%d cut)", c.gets.Load(), c.posts.Load(),
		c.postsFailed.Load(), c.sockets.Load(), c.socketsCut.Load(), c.lineCount.Load(), c.linesCut.Load())
	if !c.haveDone(enough) {
		c.Errorf("got fewer than %d of a kind", enough)
	}
	// Four clients of each kind can be at a backend when it goes. A reload cuts WebSockets, without a stream_close_delay.
	if cut := c.socketsCut.Load() + c.linesCut.Load(); cut > 8*interrupts+4*c.reloads {
		c.Errorf("%d connections were cut by %d interruptions and %d reloads", cut, interrupts, c.reloads)
	}
	// Twelve clients ask for an answer. A reload can drop the connection of each, and the next one.
	if asked := c.askedAgain.Load(); asked > 24*c.reloads {
		c.Errorf("%d requests were dropped by %d reloads", asked, c.reloads)
	}
}
