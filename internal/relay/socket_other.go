//go:build !unix

package relay

// canReadRaw says that a socket may be read from within RawConn.Read: not here, where that call only waits.
const canReadRaw = false

// readSocket is not called.
func (d *direction) readSocket(int) bool { return true }
