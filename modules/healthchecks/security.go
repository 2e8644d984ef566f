package healthchecks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// Security says how a check speaks TLS. What it doesn't say is as in the TLS of the cluster, client certificates for
// example. A check of endpoints to which the cluster speaks no TLS of its own, and passes that of its clients through,
// verifies nothing by default: that is theirs to do.
type Security struct {
	// The name in the hello, which a certificate that is verified must have. Default: that of the cluster's TLS, or else
	// the host of the endpoint. Placeholders such as `{env.NAME}` are replaced at load.
	ServerName string `json:"server_name,omitempty"`

	// Files with the certificate authorities to trust, in PEM. With such files the certificate is verified. Default: those
	// that the cluster trusts. Placeholders such as `{env.NAME}` are replaced at load.
	CAFile []string `json:"ca_file,omitempty"`

	// Whether to verify the certificate. Default: as the cluster's TLS does; if it has none, only with `ca_file`.
	Verify bool `json:"verify,omitempty"`

	serverName string
	// roots is nil without files of our own.
	roots *x509.CertPool
}

// given says whether anything is set.
func (s *Security) given() bool { return s.ServerName != "" || len(s.CAFile) > 0 || s.Verify }

// load reads what the settings name.
func (s *Security) load() (err error) {
	if s.serverName, err = replace("server_name", s.ServerName); err != nil {
		return err
	}
	files, err := replaceAll("ca_file", s.CAFile)
	if err != nil || len(files) == 0 {
		return err
	}
	s.roots = x509.NewCertPool()
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("ca_file: %w", err)
		}
		if !s.roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca_file: %s: has no certificate", file)
		}
	}
	return nil
}

// secure makes the handshake, and offers these protocols; with none, those of the cluster's TLS.
func (s *Security) secure(ctx context.Context, conn net.Conn, target *Target, alpn ...string) (*tls.Conn, error) {
	client := upstreamtls.Client{Config: &tls.Config{InsecureSkipVerify: true}}
	if target.TLS != nil {
		client = *target.TLS
		client.Config = client.Config.Clone()
	}
	if s.serverName != "" {
		client.Config.ServerName = s.serverName
	}
	if s.roots != nil {
		client.Config.RootCAs = s.roots
	}
	if s.Verify || s.roots != nil {
		client.Config.InsecureSkipVerify = false
	}
	if len(alpn) > 0 {
		client.Config.NextProtos = alpn
	}
	return client.Handshake(ctx, conn, target.Host)
}

// OptionalTLS says whether a check speaks TLS, and how.
type OptionalTLS struct {
	// Whether to speak TLS. Default: as the cluster does; `true` if `server_name`, `ca_file` or `verify` is given.
	TLS *bool `json:"tls,omitempty"`

	Security
}

// load reads what the settings name.
func (o *OptionalTLS) load() error {
	if o.TLS != nil && !*o.TLS && o.given() {
		return errors.New("tls: is off, so server_name, ca_file and verify have no meaning")
	}
	return o.Security.load()
}

// on says whether to speak TLS with the target.
func (o *OptionalTLS) on(target *Target) bool {
	if o.TLS != nil {
		return *o.TLS
	}
	return target.TLS != nil || o.given()
}

// begin makes a handshake if TLS is spoken, and returns the connection to go on with.
func (o *OptionalTLS) begin(ctx context.Context, conn net.Conn, target *Target, protocol string) (net.Conn, error) {
	if !o.on(target) {
		return conn, nil
	}
	secured, err := o.secure(ctx, conn, target, protocol)
	if err != nil {
		return nil, err
	}
	return secured, nil
}

// replace returns a text with the placeholders in it replaced, for a field with this name.
func replace(name, text string) (string, error) {
	replaced, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	if err != nil {
		return "", fmt.Errorf("%s: %q: %w", name, text, err)
	}
	return replaced, nil
}

// replaceAll returns a list with the placeholders in it replaced, for a field with this name.
func replaceAll(name string, list []string) (replaced []string, err error) {
	for _, text := range list {
		if text, err = replace(name, text); err != nil {
			return nil, err
		}
		replaced = append(replaced, text)
	}
	return replaced, nil
}
