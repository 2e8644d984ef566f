package relay

import "sync"

// The sizes of the buffers. A wait that can't do without a buffer holds the idle one; a socket's first bytes go through
// the first one, which takes a TLS server's first flight at once; bulk is where larger copies stop paying (a copy with
// 64 KiB costs two thirds of one with 16 KiB, and twice that memory saves little more).
const (
	idleSize  = 4 << 10
	firstSize = 16 << 10
	bulkSize  = 64 << 10
)

// buffer is a pooled buffer.
type buffer struct {
	bytes []byte
	pool  *sync.Pool
}

var (
	idleBuffers  = bufferPool(idleSize)
	firstBuffers = bufferPool(firstSize)
	bulkBuffers  = bufferPool(bulkSize)
)

func bufferPool(size int) *sync.Pool {
	pool := new(sync.Pool)
	pool.New = func() any { return &buffer{bytes: make([]byte, size), pool: pool} }
	return pool
}

func takeBuffer(from *sync.Pool) *buffer { return from.Get().(*buffer) }

func (b *buffer) giveBack() { b.pool.Put(b) }
