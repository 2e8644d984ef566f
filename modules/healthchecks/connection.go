package healthchecks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/pires/go-proxyproto"
)

// maxPort is the highest port of TCP.
const maxPort = 65535

// proxyOff is what stands for no PROXY header.
const proxyOff = "off"

// proxyVersions are the versions of the PROXY header, by name.
var proxyVersions = map[string]byte{"v1": 1, "v2": 2}

// Connection says where a check connects to, and how it begins.
type Connection struct {
	// The port to connect to. Range: 1 to 65535. Default: that of the endpoint. It has no effect on where traffic goes. An
	// endpoint at a unix socket has no other port, so its check fails. No placeholders.
	Port int `json:"port,omitempty"`

	// The PROXY protocol header to send first: `v1`, `v2` or `off`. It says that the connection is the proxy's own (LOCAL,
	// in version 1 UNKNOWN). Default: the version that the cluster sends, or none. No placeholders.
	ProxyProtocol string `json:"proxy_protocol,omitempty"`
}

// check refuses what can't be meant.
func (c *Connection) check() error {
	if err := checkPort(c.Port); err != nil {
		return err
	}
	if c.ProxyProtocol != "" && c.ProxyProtocol != proxyOff && proxyVersions[c.ProxyProtocol] == 0 {
		return fmt.Errorf("proxy_protocol: %q is not known; must be one of v1, v2, off", c.ProxyProtocol)
	}
	return nil
}

// checkPort refuses what is no port; 0 is the endpoint's.
func checkPort(port int) error {
	if port < 0 || port > maxPort {
		return fmt.Errorf("port: %d is out of range, 1 to %d", port, maxPort)
	}
	return nil
}

// run connects to the target, sends the PROXY header, and has ask do the rest with the connection, which it closes then.
// From the end of ctx on, nothing that ask does with the connection waits any longer.
func (c *Connection) run(ctx context.Context, target *Target, ask func(net.Conn) error) error {
	conn, err := connect(ctx, target, c.Port)
	if err != nil {
		return because(ctx, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := c.introduce(conn, target); err != nil {
		return because(ctx, err)
	}
	return because(ctx, ask(conn))
}

// introduce sends the PROXY header, if there is to be one.
func (c *Connection) introduce(conn net.Conn, target *Target) error {
	name := c.ProxyProtocol
	if name == "" {
		name = target.ProxyProtocol
	}
	version := proxyVersions[name]
	if version == 0 {
		return nil
	}
	if _, err := proxyproto.HeaderProxyFromAddrs(version, nil, nil).WriteTo(conn); err != nil {
		return fmt.Errorf("writing PROXY header: %w", err)
	}
	return nil
}

// connect connects to a port of the target; 0 is its own.
func connect(ctx context.Context, target *Target, port int) (net.Conn, error) {
	if port != 0 && target.Path != "" {
		return nil, errors.New("port: a unix socket has none")
	}
	return target.Dial(ctx, target.Host, portOf(target, port))
}

// portOf returns the port to connect to.
func portOf(target *Target, port int) uint16 {
	if port == 0 {
		return target.Port
	}
	return uint16(port) // checked at load
}

// authority returns what stands for the target in a request (RFC 9110 §7.2).
func (c *Connection) authority(target *Target) string {
	if target.Path != "" {
		return "localhost"
	}
	return net.JoinHostPort(target.Host, strconv.Itoa(int(portOf(target, c.Port))))
}

// because says of a failure after the end of ctx that this is its reason.
func because(ctx context.Context, err error) error {
	ended := ctx.Err()
	if err == nil || ended == nil || errors.Is(err, ended) {
		return err
	}
	return fmt.Errorf("%w: %w", ended, err)
}

// maxQuote is how much of what an endpoint has said an error has room for, in bytes.
const maxQuote = 200

// quote makes text of an endpoint fit for a log.
func quote(text string) string {
	if len(text) > maxQuote {
		return strconv.QuoteToASCII(text[:maxQuote]) + "..."
	}
	return strconv.QuoteToASCII(text)
}
