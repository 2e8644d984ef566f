//go:build !unix

package forward

import "net"

// departure does nothing on systems that don't tell of a reset while nobody reads.
type departure struct{}

func watchDeparture(net.Conn, func()) *departure { return nil }

func (*departure) stop() {}
