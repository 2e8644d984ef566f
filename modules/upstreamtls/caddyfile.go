package upstreamtls

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// caNamespace is that of Caddy's modules for certificate authorities.
const caNamespace = "tls.ca_pool.source"

// UnmarshalBlock reads the block of settings behind the option at which d stands. Syntax:
//
//	tls {
//		server_name          <name>
//		alpn                 <protocols...>
//		ca_file              <files...>
//		trust_pool           <module> ...
//		client_certificate   <cert_file> <key_file> | <managed name>
//		insecure_skip_verify
//		handshake_timeout    <duration>
//		curves               <curves...>
//		renegotiation        never|once|freely
//	}
func (t *TLS) UnmarshalBlock(d *caddyfile.Dispenser) error {
	return args.Block(d, t.unmarshalOption)
}

// unmarshalOption reads the option at which d stands.
func (t *TLS) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch name := d.Val(); name {
	case "server_name":
		t.ServerName, err = args.One(d)
	case "alpn":
		t.ALPN, err = args.Many(d)
	case "ca_file":
		err = t.unmarshalFiles(d)
	case "trust_pool":
		err = t.unmarshalPool(d)
	case "client_certificate":
		err = t.unmarshalCertificate(d)
	case "insecure_skip_verify":
		t.InsecureSkipVerify, err = true, args.None(d)
	case "handshake_timeout":
		t.HandshakeTimeout, err = args.Duration(d)
	case "curves":
		t.Curves, err = args.Many(d)
	case "renegotiation":
		t.Renegotiation, err = args.One(d)
	default:
		err = d.Errf("unrecognized option %q: expected one of server_name, alpn, ca_file, trust_pool, client_certificate, "+
			"insecure_skip_verify, handshake_timeout, curves, renegotiation", name)
	}
	return err
}

// unmarshalFiles reads the files of certificate authorities to trust.
func (t *TLS) unmarshalFiles(d *caddyfile.Dispenser) error {
	files, err := args.Many(d)
	if err != nil {
		return err
	}
	return t.setPool(d, "file", map[string]any{"pem_files": files})
}

// unmarshalPool reads one of Caddy's modules for certificate authorities.
func (t *TLS) unmarshalPool(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Err("trust_pool needs the name of a module")
	}
	name := d.Val()
	pool, err := caddyfile.UnmarshalModule(d, caNamespace+"."+name)
	if err != nil {
		return err
	}
	return t.setPool(d, name, pool)
}

// setPool sets the certificate authorities to trust.
func (t *TLS) setPool(d *caddyfile.Dispenser, provider string, pool any) (err error) {
	if t.CARaw != nil {
		return d.Err("ca_file and trust_pool exclude each other")
	}
	t.CARaw, err = args.Module(d, pool, "provider", provider)
	return err
}

// unmarshalCertificate reads what to show to an upstream that asks for a certificate.
func (t *TLS) unmarshalCertificate(d *caddyfile.Dispenser) error {
	switch given := d.RemainingArgs(); len(given) {
	case 1:
		t.ClientCertificateAutomate = given[0]
	case 2:
		t.ClientCertificateFile, t.ClientCertificateKeyFile = given[0], given[1]
	default:
		return d.Errf("client_certificate needs a certificate file and a key file, or a managed name, got %d arguments", len(given))
	}
	return nil
}
