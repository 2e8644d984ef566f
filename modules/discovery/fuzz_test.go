package discovery

import (
	"cmp"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/miekg/dns"
)

// FuzzEndpoints makes SRV records of the bytes, seven each. However they are ordered, the endpoints are the same, sorted,
// each address once, with the lowest of its priorities; and weights are between 1 and 2^20, in the proportions of the
// records.
func FuzzEndpoints(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0, 80, 0, 0, 1, 0, 0, 0, 80, 1, 0, 1, 255, 255, 0, 80, 0})
	f.Add([]byte{0, 2, 0, 0, 0, 80, 0, 0, 2, 0, 0, 0, 81, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []*dns.SRV
		for ; len(data) >= 7; data = data[7:] {
			records = append(records, &dns.SRV{
				Priority: binary.BigEndian.Uint16(data), Weight: binary.BigEndian.Uint16(data[2:]),
				Port: binary.BigEndian.Uint16(data[4:]), Target: []string{"a.test.", "B.test.", "c.test."}[data[6]%3],
			})
		}
		got := tidy(endpoints(records))
		slices.Reverse(records)
		if again := tidy(endpoints(records)); !slices.Equal(got, again) {
			t.Fatalf("got %v and %v", got, again)
		}
		for i, e := range got {
			if e.Weight < 1 || e.Weight > 1<<20 {
				t.Errorf("got the weight %d", e.Weight)
			}
			if i > 0 && less(e, got[i-1]) {
				t.Errorf("got %v behind %v", e, got[i-1])
			}
		}
		checkRecords(t, records, got)
	})
}

// less says whether an endpoint stands before another one.
func less(a, b Endpoint) bool {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port)) < 0
}

// checkRecords checks that each record has its endpoint, exactly one, which is at least as good.
func checkRecords(t *testing.T, records []*dns.SRV, got []Endpoint) {
	t.Helper()
	hosts := map[string]string{"a.test.": "a.test", "B.test.": "b.test", "c.test.": "c.test"}
	for _, srv := range records {
		n := 0
		for _, e := range got {
			if e.Host == hosts[srv.Target] && e.Port == srv.Port {
				n++
				if e.Priority > srv.Priority || e.Priority == srv.Priority && e.Weight < uint32(srv.Weight) {
					t.Errorf("got %v, want at least %v", e, srv)
				}
			}
		}
		if n != 1 {
			t.Errorf("got %d endpoints for %v, want one", n, srv)
		}
	}
	for _, x := range got {
		for _, y := range got {
			wx, wy := weightOf(records, x, hosts), weightOf(records, y, hosts)
			if x.Priority == y.Priority && wx > 0 && wy > 0 && uint64(x.Weight)*uint64(wy) != uint64(y.Weight)*uint64(wx) {
				t.Errorf("got the weights %d and %d for %d and %d", x.Weight, y.Weight, wx, wy)
			}
		}
	}
}

// weightOf returns the largest weight of the records that an endpoint comes from.
func weightOf(records []*dns.SRV, e Endpoint, hosts map[string]string) (weight uint16) {
	for _, srv := range records {
		if hosts[srv.Target] == e.Host && srv.Port == e.Port && srv.Priority == e.Priority {
			weight = max(weight, srv.Weight)
		}
	}
	return weight
}

// FuzzAnswer reads messages of any content. What is read is of the type that was asked for, and holds for a time that is
// not negative, nor longer than any record.
func FuzzAnswer(f *testing.F) {
	question := dns.Question{Name: host + ".", Qtype: dns.TypeA, Qclass: dns.ClassINET}
	for _, list := range [][]string{
		{host + ". 60 IN A 192.0.2.1"},
		{host + ". 9 IN CNAME b.test.", "b.test. 60 IN A 192.0.2.1"},
		{host + ". 9 IN CNAME b.test.", "b.test. 9 IN CNAME " + host + "."},
	} {
		message := dns.Msg{Question: []dns.Question{question}, MsgHdr: dns.MsgHdr{Response: true, RecursionAvailable: true}}
		for _, text := range list {
			rr, err := dns.NewRR(text)
			if err != nil {
				f.Fatal(err)
			}
			message.Answer = append(message.Answer, rr)
		}
		packed, err := message.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var message dns.Msg
		if message.Unpack(data) != nil || check(&message, question) != nil {
			return
		}
		got := read(&message, question)
		if got.err != nil || got.ttl < 0 {
			t.Fatalf("got %v, %v", got.ttl, got.err)
		}
		for _, rr := range got.records {
			if rr.Header().Rrtype != question.Qtype || got.ttl > ttlOf(rr) {
				t.Errorf("got %v, for %v", rr, got.ttl)
			}
		}
		if len(addresses(got.records)) > len(got.records) {
			t.Errorf("got more addresses than records: %v", got.records)
		}
	})
}
