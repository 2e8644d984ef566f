package healthchecks

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// UnmarshalCaddyfile reads the check. Syntax:
//
//	tcp {
//		port <port>
//	}
func (t *TCP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume check name
	return args.Block(d, func(d *caddyfile.Dispenser) (err error) {
		if d.Val() != "port" {
			return d.Errf("unrecognized option %q: expected port", d.Val())
		}
		t.Port, err = port(d)
		return err
	})
}

// UnmarshalCaddyfile reads the check. Syntax:
//
//	tls {
//		port           <port>
//		proxy_protocol v1|v2|off
//		server_name    <name>
//		ca_file        <files...>
//		verify
//		alpn           <protocols...>
//	}
func (t *TLS) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume check name
	return args.Block(d, t.unmarshalOption)
}

// unmarshalOption reads the option at which d stands.
func (t *TLS) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	if d.Val() == "alpn" {
		t.ALPN, err = args.Many(d)
		return err
	}
	known, err := t.Connection.unmarshalOption(d)
	if !known {
		known, err = t.Security.unmarshalOption(d)
	}
	if !known {
		return d.Errf("unrecognized option %q: expected one of port, proxy_protocol, server_name, ca_file, verify, alpn", d.Val())
	}
	return err
}

// UnmarshalCaddyfile reads the check. Syntax:
//
//	http <path> {
//		port           <port>
//		proxy_protocol v1|v2|off
//		tls            [off]
//		server_name    <name>
//		ca_file        <files...>
//		verify
//		method         <method>
//		host           <host>
//		header         <name> <value>
//		expect_status  <codes|classes|ranges...>
//		expect_body    <regexp>
//	}
func (h *HTTP) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	d.Next() // consume check name
	if d.CountRemainingArgs() == 0 {
		return d.Err("health http needs a path, such as /healthz")
	}
	if h.Path, err = args.One(d); err != nil {
		return err
	}
	return args.Options(d, h.unmarshalOption, "header")
}

// unmarshalOption reads the option at which d stands.
func (h *HTTP) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "method":
		h.Method, err = args.One(d)
	case "host":
		h.Host, err = args.One(d)
	case "header":
		err = h.unmarshalHeader(d)
	case "expect_status":
		h.ExpectStatus, err = args.Many(d)
	case "expect_body":
		h.ExpectBody, err = args.One(d)
	default:
		return h.unmarshalShared(d)
	}
	return err
}

// unmarshalShared reads the option at which d stands, which other checks have too.
func (h *HTTP) unmarshalShared(d *caddyfile.Dispenser) error {
	known, err := h.Connection.unmarshalOption(d)
	if !known {
		known, err = h.OptionalTLS.unmarshalOption(d)
	}
	if !known {
		return d.Errf("unrecognized option %q: expected one of port, proxy_protocol, tls, server_name, ca_file, verify, method, "+
			"host, header, expect_status, expect_body", d.Val())
	}
	return err
}

// unmarshalHeader reads a header field.
func (h *HTTP) unmarshalHeader(d *caddyfile.Dispenser) error {
	given := d.RemainingArgs()
	if len(given) != 2 {
		return d.Errf("header needs a name and a value, got %d arguments", len(given))
	}
	if h.Headers == nil {
		h.Headers = make(http.Header)
	}
	h.Headers.Add(given[0], given[1])
	return nil
}

// UnmarshalCaddyfile reads the check. Syntax:
//
//	grpc [<service>] {
//		port           <port>
//		proxy_protocol v1|v2|off
//		tls            [off]
//		server_name    <name>
//		ca_file        <files...>
//		verify
//	}
func (g *GRPC) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume check name
	if d.NextArg() {
		g.Service = d.Val()
	}
	if d.NextArg() {
		return d.Errf("grpc takes one argument, got also %q", d.Val())
	}
	return args.Options(d, g.unmarshalOption)
}

// unmarshalOption reads the option at which d stands.
func (g *GRPC) unmarshalOption(d *caddyfile.Dispenser) error {
	known, err := g.Connection.unmarshalOption(d)
	if !known {
		known, err = g.OptionalTLS.unmarshalOption(d)
	}
	if !known {
		return d.Errf("unrecognized option %q: expected one of port, proxy_protocol, tls, server_name, ca_file, verify", d.Val())
	}
	return err
}

// unmarshalOption reads the option at which d stands if it is one of these.
func (c *Connection) unmarshalOption(d *caddyfile.Dispenser) (known bool, err error) {
	switch d.Val() {
	case "port":
		c.Port, err = port(d)
	case "proxy_protocol":
		c.ProxyProtocol, err = args.One(d)
	default:
		return false, nil
	}
	return true, err
}

// unmarshalOption reads the option at which d stands if it is one of these.
func (s *Security) unmarshalOption(d *caddyfile.Dispenser) (known bool, err error) {
	switch d.Val() {
	case "server_name":
		s.ServerName, err = args.One(d)
	case "ca_file":
		s.CAFile, err = args.Many(d)
	case "verify":
		s.Verify, err = true, args.None(d)
	default:
		return false, nil
	}
	return true, err
}

// unmarshalOption reads the option at which d stands if it is one of these.
func (o *OptionalTLS) unmarshalOption(d *caddyfile.Dispenser) (known bool, err error) {
	if d.Val() != "tls" {
		return o.Security.unmarshalOption(d)
	}
	on := d.CountRemainingArgs() == 0
	if !on {
		var word string
		if word, err = args.One(d); err == nil && word != "off" {
			err = d.Errf("tls takes no argument but off, got %q", word)
		}
	}
	o.TLS = &on
	return true, err
}

// port reads the port behind the option at which d stands.
func port(d *caddyfile.Dispenser) (int, error) {
	number, err := args.Int(d)
	if err == nil && number > maxPort {
		err = d.Errf("port: %d is out of range, 1 to %d", number, maxPort)
	}
	return int(number), err
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*TCP)(nil)
	_ caddyfile.Unmarshaler = (*TLS)(nil)
	_ caddyfile.Unmarshaler = (*HTTP)(nil)
	_ caddyfile.Unmarshaler = (*GRPC)(nil)
)
