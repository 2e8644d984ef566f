package sluiceapp

import (
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/permit"
	"github.com/caddy-sluice/sluice/internal/pressure"
	"github.com/caddy-sluice/sluice/modules/session"
)

// RequestLimits are the limits of one handler `admission` for HTTP requests.
type RequestLimits struct {
	// Server names the HTTP server. Limits of the same server share their counts.
	Server string
	// PerServer and PerClient are how many requests there may be; 0 means no limit, and no count.
	PerServer, PerClient int64
	// Prefix6 is how many bits of an IPv6 address make a client.
	Prefix6 int
}

// RequestPermit is what a request holds until it is over. The zero value holds nothing.
type RequestPermit struct {
	state   *state
	process bool
	// server and client are set as far as they count.
	server string
	client source
}

// AdmitRequest lets an HTTP request pass the gates, in this order: memory, open files, requests of the process, of the
// server, of the client. Those of the process are left out for a request that has passed them before. An invalid client
// address, that of a unix socket, needs no permit. The gate is Open, and the permit is to be released once, or the gate
// refuses, and the refusal is counted.
func (a *App) AdmitRequest(l *RequestLimits, client netip.Addr, before bool) (RequestPermit, session.CloseReason) {
	p := RequestPermit{state: a.state}
	gate := session.Open
	if !before {
		gate = a.admitToProcess(&p)
	}
	if gate == session.Open {
		gate = p.take(l, client)
	}
	if gate != session.Open {
		p.Release()
		a.refuseRequest(l, client, gate)
	}
	return p, gate
}

// admitToProcess asks the gates of the process.
func (a *App) admitToProcess(p *RequestPermit) session.CloseReason {
	if gate := a.shut(time.Now(), (*pressure.Files).Ask); gate != session.Open {
		return gate
	}
	if !a.state.requests.TryAcquire(1, a.gates.maxRequests) {
		return session.AdmissionProcess
	}
	p.process = true
	return session.Open
}

// take takes the permits of a handler's own limits.
func (p *RequestPermit) take(l *RequestLimits, client netip.Addr) session.CloseReason {
	if l.PerServer > 0 {
		if !p.state.serverRequests.TryAcquire(l.Server, l.PerServer) {
			return session.AdmissionListener
		}
		p.server = l.Server
	}
	if l.PerClient > 0 && client.IsValid() {
		key := source{l.Server, permit.SourcePrefix(client, l.Prefix6)}
		if !p.state.clientRequests.TryAcquire(key, l.PerClient) {
			return session.AdmissionSourceIP
		}
		p.client = key
	}
	return session.Open
}

// Release gives back what the request holds. A second call does nothing.
func (p *RequestPermit) Release() {
	if p.state == nil {
		return
	}
	if p.process {
		p.state.requests.Release(1)
	}
	if p.server != "" {
		p.state.serverRequests.Release(p.server)
	}
	if p.client.addr.IsValid() {
		p.state.clientRequests.Release(p.client)
	}
	*p = RequestPermit{}
}

// refuseRequest counts a refusal and tells the operator.
func (a *App) refuseRequest(l *RequestLimits, client netip.Addr, gate session.CloseReason) {
	i := gate - firstGate
	metrics.rejectedRequests[i].Inc()
	a.requestSheds[i].Refused(a.logger, zap.String("listener", l.Server))
	if entry := a.logger.Check(zap.DebugLevel, "request not admitted"); entry != nil {
		entry.Write(zap.Stringer("remote", client), zap.String("listener", l.Server), zap.String("gate", gateName(gate)))
	}
}
