package relay

import (
	"net"
	"testing"
)

func TestBulkComesAndGoes(t *testing.T) {
	var d direction
	reads := func(n, times int) {
		for range times {
			d.note(n)
		}
	}
	want := func(bulk bool) {
		t.Helper()
		if d.bulk != bulk {
			t.Errorf("bulk: got %v, want %v", d.bulk, bulk)
		}
	}
	reads(fullRead-1, 1000)
	want(false)
	reads(bulkSize, bulkAfter/bulkSize-1)
	want(false)
	reads(100, 1)
	reads(bulkSize, bulkAfter/bulkSize-1)
	want(false)
	reads(bulkSize, 1)
	want(true)
	reads(100, bulkEnds-1)
	reads(fullRead, 1)
	reads(100, bulkEnds-1)
	want(true)
	reads(100, 1)
	want(false)
	reads(bulkSize, bulkAfter/bulkSize-1)
	want(false)
	reads(bulkSize, 1)
	want(true)
}

func TestWhatAnEndpointIs(t *testing.T) {
	tcp, _ := tcpPair(t)
	unixConn, _ := unixPair(t)
	secured, _ := tlsPair(t)
	pipe, _ := net.Pipe()
	embedding := struct{ *net.TCPConn }{tcp.(*net.TCPConn)}
	tests := []struct {
		name                    string
		conn, through           net.Conn
		raw, bottom, closeWrite bool
	}{
		{"tcp", tcp, tcp, true, true, true},
		{"unix", unixConn, unixConn, true, false, true},
		{"tls", secured, secured, false, true, true},
		{"pipe", pipe, pipe, false, false, false},
		{"opaque", opaque{tcp}, opaque{tcp}, false, false, false},
		{"shown", shown{opaque{tcp}}, shown{opaque{tcp}}, false, true, true},
		{"embedding a socket", embedding, embedding, false, true, true},
		{"bare", bareWrap{opaque{tcp}, true}, tcp, true, true, true},
		{"bare twice", bareWrap{opaque{bareWrap{opaque{tcp}, true}}, true}, tcp, true, true, true},
		{"not bare", bareWrap{opaque{tcp}, false}, bareWrap{opaque{tcp}, false}, false, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var e endpoint
			e.open(test.conn)
			if e.conn != test.through {
				t.Errorf("bytes go through %T, want %T", e.conn, test.through)
			}
			if got := e.raw != nil; got != test.raw {
				t.Errorf("raw: got %v, want %v", got, test.raw)
			}
			if got := e.tcp != nil; got != test.bottom {
				t.Errorf("tcp: got %v, want %v", got, test.bottom)
			}
			if got := e.closer != nil; got != test.closeWrite {
				t.Errorf("closer: got %v, want %v", got, test.closeWrite)
			}
		})
	}
}
