package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// systemConf is where the system says which name servers it has. Where there is no such file, the system is asked.
	systemConf = "/etc/resolv.conf"
	// maxSystemServers is how many of the system's name servers are asked, as by the C library (MAXNS).
	maxSystemServers = 3
	// serverTimeout is how long one name server has for one answer.
	serverTimeout = 2 * time.Second
	// rounds is how often the name servers are asked, since datagrams get lost.
	rounds = 2
	// udpSize is the largest answer over UDP that we ask for, in bytes: it fits into one packet everywhere (DNS flag day
	// 2020).
	udpSize = 1232
	// maxAliases is how many CNAMEs are followed in an answer.
	maxAliases = 16
)

// resolver asks name servers. It keeps nothing.
type resolver struct {
	// given are the name servers to ask, with their ports. nil: those of the system.
	given *dns.ClientConfig
	// conf is the path of the file that names those of the system.
	conf string
	// plain asks the system where there is no such file. nil: net.DefaultResolver.
	plain *net.Resolver
}

// newResolver returns one that asks these name servers, for names as they are; without any, those of the system.
func newResolver(servers []string) *resolver {
	if servers == nil {
		return &resolver{conf: systemConf}
	}
	return &resolver{given: &dns.ClientConfig{Servers: servers}}
}

// reply is what a name has of one type, and for how long that holds. No records and no error says that it has none.
type reply struct {
	records []dns.RR
	ttl     time.Duration
	err     error
}

// find asks for the records of a name, one reply for each type. It returns those of the first name that has any, in the
// order of the search list. An error says that none has any, or that it can't be known which one is the first.
func (r *resolver) find(ctx context.Context, name string, types ...uint16) ([]reply, error) {
	config := r.given
	if config == nil {
		config = r.system()
	}
	ask := func(ctx context.Context, name string, question uint16) reply {
		return exchange(ctx, config.Servers, name, question)
	}
	if len(config.Servers) == 0 {
		ask = r.askSystem
	}
	for _, candidate := range config.NameList(name) {
		replies, some, failed := askAll(ctx, ask, candidate, types)
		if some {
			return replies, nil
		}
		if failed != nil {
			return nil, failed
		}
	}
	return nil, fmt.Errorf("%q has no records of type %s", name, typeNames(types))
}

// askAll asks for the records of one name. some says that it has any, failed is the last failure to find out.
func askAll(ctx context.Context, ask func(context.Context, string, uint16) reply, name string, types []uint16) (replies []reply, some bool, failed error) {
	for _, question := range types {
		answer := ask(ctx, name, question)
		replies = append(replies, answer)
		some = some || len(answer.records) > 0
		if answer.err != nil {
			failed = answer.err
		}
	}
	return replies, some, failed
}

// system returns the name servers of the system, as they are now, and its search list.
func (r *resolver) system() *dns.ClientConfig {
	config, err := dns.ClientConfigFromFile(r.conf)
	if err != nil || len(config.Servers) == 0 {
		return new(dns.ClientConfig)
	}
	config.Servers = config.Servers[:min(len(config.Servers), maxSystemServers)]
	for i, server := range config.Servers {
		config.Servers[i] = net.JoinHostPort(server, config.Port)
	}
	return config
}

// exchange asks name servers one after the other until one answers.
func exchange(ctx context.Context, servers []string, name string, question uint16) reply {
	query := new(dns.Msg).SetQuestion(dns.Fqdn(name), question)
	query.SetEdns0(udpSize, false)
	var failed error
	for range rounds {
		for _, server := range servers {
			if ctx.Err() != nil {
				return reply{err: asking(name, question, errors.Join(failed, ctx.Err()))}
			}
			answer, err := exchangeOne(ctx, server, query)
			if err == nil {
				return read(answer, query.Question[0])
			}
			failed = fmt.Errorf("%s: %w", server, err)
			if answer != nil && (answer.Rcode == dns.RcodeFormatError || answer.Rcode == dns.RcodeNotImplemented) {
				query.Extra = nil // a server that doesn't know EDNS0 (RFC 6891 §7)
			}
		}
	}
	return reply{err: asking(name, question, failed)}
}

// asking says what was asked for when an error came up.
func asking(name string, question uint16, err error) error {
	return fmt.Errorf("asking for records of %q of type %s: %w", name, dns.TypeToString[question], err)
}

// exchangeOne asks one name server: over UDP, and over TCP if the answer was too large for that. The answer may be there
// with an error.
func exchangeOne(ctx context.Context, server string, query *dns.Msg) (*dns.Msg, error) {
	answer, err := send(ctx, "udp", server, query)
	if err == nil && answer.Truncated {
		answer, err = send(ctx, "tcp", server, query)
	}
	if err != nil {
		return nil, err
	}
	return answer, check(answer, query.Question[0])
}

// send sends a query and waits for the answer, serverTimeout at most, or until ctx ends.
func send(ctx context.Context, network, server string, query *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	query = query.Copy()
	query.Id = dns.Id()
	client := dns.Client{Net: network, Timeout: serverTimeout}
	conn, err := client.DialContext(ctx, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer conn.Close()
	answer, _, err := client.ExchangeWithConnContext(ctx, query, conn)
	return answer, err
}

// check says why an answer is none: it belongs to another question, the server could not find out, or it only knows who
// else could (RFC 1034 §4.3.1).
func check(answer *dns.Msg, question dns.Question) error {
	if !answer.Response || len(answer.Question) != 1 || !same(answer.Question[0], question) {
		return errors.New("it answers another question")
	}
	switch {
	case answer.Rcode == dns.RcodeNameError:
		return nil
	case answer.Rcode != dns.RcodeSuccess:
		return fmt.Errorf("it answers %s", dns.RcodeToString[answer.Rcode])
	case len(answer.Answer) == 0 && !answer.Authoritative && !answer.RecursionAvailable:
		return errors.New("it does not resolve names for us")
	}
	return nil
}

// same says whether two questions are the same.
func same(a, b dns.Question) bool {
	return a.Qtype == b.Qtype && a.Qclass == b.Qclass && strings.EqualFold(a.Name, b.Name)
}

// read returns the records that answer a question: those of the name, or of the name that it is an alias of.
func read(answer *dns.Msg, question dns.Question) reply {
	if answer.Rcode == dns.RcodeNameError {
		return reply{ttl: noTTL}
	}
	owner, ttl := question.Name, noTTL
	for range maxAliases {
		alias := aliasOf(answer.Answer, owner)
		if alias == nil {
			break
		}
		owner, ttl = alias.Target, min(ttl, ttlOf(alias))
	}
	var records []dns.RR
	for _, rr := range answer.Answer {
		if h := rr.Header(); h.Rrtype == question.Qtype && h.Class == question.Qclass && strings.EqualFold(h.Name, owner) {
			records, ttl = append(records, rr), min(ttl, ttlOf(rr))
		}
	}
	return reply{records: records, ttl: ttl}
}

// aliasOf returns the CNAME of a name, nil if it has none.
func aliasOf(records []dns.RR, owner string) *dns.CNAME {
	for _, rr := range records {
		if alias, ok := rr.(*dns.CNAME); ok && strings.EqualFold(alias.Hdr.Name, owner) {
			return alias
		}
	}
	return nil
}

// ttlOf returns for how long a record holds. One with the first bit set is 0 (RFC 2181 §8).
func ttlOf(rr dns.RR) time.Duration {
	return time.Duration(max(int32(rr.Header().Ttl), 0)) * time.Second
}

// typeNames returns the names of types, for errors.
func typeNames(types []uint16) string {
	names := make([]string, 0, len(types))
	for _, t := range types {
		names = append(names, dns.TypeToString[t])
	}
	return strings.Join(names, " or ")
}
