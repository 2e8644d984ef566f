// Package dns is a name server for tests. It answers from a function, and a resolver reaches it through pipes, so a test
// says what every name resolves to without a socket.
package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Answer says what a name has for a question of type A or AAAA. The name is in lower case, without the last dot. nil
// means that there is no such name. Addresses of the other family are left out of the answer: a function that looks at
// the name only need not look at the type. IPv4-mapped addresses are IPv6. It may be called at the same time for both
// types. To be a server that hangs, wait for the end of the test's context.
type Answer func(name string, question dnsmessage.Type) []netip.Addr

// server is one name server.
type server struct {
	answer Answer
	// mu guards closed, and that no connection is added to open after the test has begun to wait for it.
	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
}

// Serve starts a name server that runs until the end of the test, and returns a resolver that asks it. Names in the
// system's hosts file are not asked for.
func Serve(t testing.TB, answer Answer) *net.Resolver {
	t.Helper()
	s := &server{answer: answer}
	t.Cleanup(s.close)
	return &net.Resolver{PreferGo: true, Dial: s.dial}
}

// close waits for the connections. The resolver closes each after its answer, or when its patience is at an end.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.open.Wait()
}

// dial is what the resolver connects with. A connection that isn't a packet connection is used as one over TCP.
func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	theirs, own := net.Pipe()
	s.open.Go(func() { s.serve(own) })
	return theirs, nil
}

// serve answers the questions of one connection until the resolver closes it.
func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	for {
		query, err := readMessage(conn)
		if err != nil {
			return
		}
		reply, err := s.reply(query)
		if err != nil {
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// readMessage reads a message behind its length (RFC 1035 §4.2.2).
func readMessage(conn net.Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, message)
	return message, err
}

// reply returns the answer to a message, with its length in front.
func (s *server) reply(query []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(query); err != nil {
		return nil, err
	}
	if len(message.Questions) != 1 {
		return nil, errors.New("not one question")
	}
	question := message.Questions[0]
	addrs := s.answer(strings.ToLower(strings.TrimSuffix(question.Name.String(), ".")), question.Type)
	message.Response, message.RecursionAvailable, message.Additionals = true, true, nil
	if addrs == nil {
		message.RCode = dnsmessage.RCodeNameError
	}
	message.Answers = resources(question, addrs)
	reply, err := message.AppendPack(make([]byte, 2))
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(reply, uint16(len(reply)-2))
	return reply, nil
}

// resources are the records of the addresses that a question asks for.
func resources(question dnsmessage.Question, addrs []netip.Addr) []dnsmessage.Resource {
	var records []dnsmessage.Resource
	for _, addr := range addrs {
		var body dnsmessage.ResourceBody
		switch {
		case question.Type == dnsmessage.TypeA && addr.Is4():
			body = &dnsmessage.AResource{A: addr.As4()}
		case question.Type == dnsmessage.TypeAAAA && addr.Is6():
			body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
		default:
			continue
		}
		header := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: dnsmessage.ClassINET, TTL: 1}
		records = append(records, dnsmessage.Resource{Header: header, Body: body})
	}
	return records
}
