package discovery

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// zone is a name server for tests: it answers from a table of records in zone file format, and remembers the questions.
type zone struct {
	// mu guards what follows.
	mu sync.Mutex
	// records are those of all names. A name without any does not exist.
	records []dns.RR
	// handle answers instead of the table, if it isn't nil. nil as its answer: none is sent.
	handle func(network string, query *dns.Msg) *dns.Msg
	// asked are the questions so far: network, name, type.
	asked []string
}

// serve starts a name server over UDP and TCP, on one port, and returns its address.
func (z *zone) serve(t *testing.T) string {
	t.Helper()
	packets, streams := listen(t)
	for _, server := range []*dns.Server{
		{PacketConn: packets, Handler: z.handler("udp")},
		{Listener: streams, Handler: z.handler("tcp")},
	} {
		var running sync.WaitGroup
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		running.Go(func() { _ = server.ActivateAndServe() })
		<-started
		t.Cleanup(func() {
			_ = server.Shutdown()
			running.Wait()
		})
	}
	return packets.LocalAddr().String()
}

// listen returns a socket of either kind, on one port. A port that is free for one kind may be taken for the other.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	var failed error
	for range 100 {
		streams, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		packets, err := net.ListenPacket("udp", streams.Addr().String())
		if err == nil {
			return packets, streams
		}
		streams.Close()
		failed = err
	}
	t.Fatal(failed)
	return nil, nil
}

// handler answers questions that come over a network.
func (z *zone) handler(network string) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		if reply := z.reply(network, query); reply != nil {
			_ = w.WriteMsg(reply)
		}
	})
}

// reply returns the answer to a query.
func (z *zone) reply(network string, query *dns.Msg) *dns.Msg {
	z.mu.Lock()
	defer z.mu.Unlock()
	question := query.Question[0]
	z.asked = append(z.asked, network+" "+question.Name+" "+dns.TypeToString[question.Qtype])
	if z.handle != nil {
		return z.handle(network, query)
	}
	return z.lookup(network, query)
}

// lookup answers from the table. What is too large for UDP is truncated.
func (z *zone) lookup(network string, query *dns.Msg) *dns.Msg {
	question := query.Question[0]
	reply := new(dns.Msg).SetReply(query)
	reply.RecursionAvailable = true
	exists := false
	for _, rr := range z.records {
		// Records of targets of aliases come along, as from a name server that resolves.
		named := strings.EqualFold(rr.Header().Name, question.Name)
		exists = exists || named
		_, alias := rr.(*dns.CNAME)
		if rr.Header().Rrtype == question.Qtype || alias {
			reply.Answer = append(reply.Answer, rr)
		}
	}
	if !exists {
		reply.Rcode, reply.Answer = dns.RcodeNameError, nil
	}
	if network == "udp" {
		reply.Truncate(udpSize)
	}
	return reply
}

// set replaces the table.
func (z *zone) set(t *testing.T, records ...string) {
	t.Helper()
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records = nil
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		z.records = append(z.records, rr)
	}
}

// use has a function answer from now on.
func (z *zone) use(handle func(network string, query *dns.Msg) *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.handle = handle
}

// questions returns the questions so far, and forgets them.
func (z *zone) questions() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	asked := slices.Clone(z.asked)
	z.asked = nil
	return asked
}

// zoneOf starts a name server with records.
func zoneOf(t *testing.T, records ...string) (*zone, string) {
	t.Helper()
	z := new(zone)
	z.set(t, records...)
	return z, z.serve(t)
}

// rcode is a name server that answers everything with a code.
func rcode(code int) func(string, *dns.Msg) *dns.Msg {
	return func(_ string, query *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(query, code) }
}
