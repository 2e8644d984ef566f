package relay

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
)

// An idle connection holds neither buffers nor pipes, whatever it carried before.
func TestIdleMemory(t *testing.T) {
	const (
		relays = 200
		// most is for two goroutines, the relay and, of this test, four ends and a goroutine.
		most = 16 << 10
	)
	noLeaks(t)
	pipes := ownPipes(t)
	rigs := make([]*rig, relays)
	for i := range rigs {
		rigs[i] = connect(t, pipes, tcpPair, tcpPair)
	}
	data := random(t, 512<<10)
	before := memory()
	for _, b := range rigs {
		b.start(t)
		go b.backend.Write(data)
		if _, err := io.CopyN(io.Discard, b.client, int64(len(data))); err != nil {
			t.Fatal(err)
		}
	}
	each := (memory() - before) / relays
	runtime.KeepAlive(data)
	if each > most {
		t.Errorf("memory of an idle connection: got %d bytes, want at most %d", each, most)
	}
}

// memory returns what is in use once pools and stacks were cleaned up.
func memory() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

func roundTrip(t testing.TB, client, backend net.Conn, buf []byte) {
	t.Helper()
	pass := func(from, to net.Conn) {
		if _, err := from.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(to, buf); err != nil {
			t.Fatal(err)
		}
	}
	pass(client, backend)
	pass(backend, client)
}

// forwarder moves bytes both ways between two connections, until both streams ended.
type forwarder func(a, b net.Conn)

func withRelay(a, b net.Conn) { (&Relay{Client: a, Backend: b}).Run() }

func withCopies(one func(dst, src net.Conn)) forwarder {
	return func(a, b net.Conn) {
		var both sync.WaitGroup
		both.Go(func() { one(a, b) })
		one(b, a)
		both.Wait()
	}
}

// ioCopy is what the standard library does: splice(2) from the first byte.
func ioCopy(dst, src net.Conn) {
	io.Copy(dst, src)
	dst.(stream).CloseWrite()
}

func copy64(dst, src net.Conn) {
	buf := make([]byte, 64<<10)
	io.CopyBuffer(opaque{dst}, opaque{src}, buf)
	dst.(stream).CloseWrite()
}

var forwarders = []struct {
	name string
	run  forwarder
}{
	{"relay", withRelay}, {"iocopy", withCopies(ioCopy)}, {"copy64", withCopies(copy64)},
}

// BenchmarkBulk moves 64 MiB a run over each of the streams. CPU is that of the whole process, so both far ends, which
// cost more than what is between them, are in it.
func BenchmarkBulk(b *testing.B) {
	for _, streams := range []int{1, 8} {
		for _, f := range forwarders {
			b.Run(fmt.Sprintf("%s/%d", f.name, streams), func(b *testing.B) { benchmarkBulk(b, f.run, streams) })
		}
	}
}

func benchmarkBulk(b *testing.B, run forwarder, streams int) {
	const size = 64 << 20
	b.SetBytes(int64(streams * size))
	cpu := cpuTime()
	var all sync.WaitGroup
	for range streams {
		client, farClient := tcpPair(b)
		backend, farBackend := tcpPair(b)
		all.Go(func() { run(client, backend) })
		all.Go(func() { flood(farBackend, b.N*size) })
		all.Go(func() { sink(farClient) })
	}
	all.Wait()
	gigabytes := float64(b.N) * size * float64(streams) / 1e9
	b.ReportMetric((cpuTime()-cpu).Seconds()/gigabytes, "cpu-s/GB")
}

func flood(c net.Conn, n int) {
	defer c.Close()
	for chunk := make([]byte, 256<<10); n > 0; n -= len(chunk) {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

func sink(c net.Conn) {
	defer c.Close()
	for chunk := make([]byte, 256<<10); ; {
		if _, err := c.Read(chunk); err != nil {
			return
		}
	}
}

// BenchmarkEcho sends 512 bytes there and back.
func BenchmarkEcho(b *testing.B) {
	for _, f := range forwarders {
		b.Run(f.name, func(b *testing.B) {
			client, nearClient := tcpPair(b)
			backend, nearBackend := tcpPair(b)
			go f.run(client, backend)
			b.ReportAllocs()
			for buf := make([]byte, 512); b.Loop(); {
				roundTrip(b, nearClient, nearBackend, buf)
			}
		})
	}
}

// BenchmarkRun is a relay whose sides have both ended their streams before.
func BenchmarkRun(b *testing.B) {
	client, nearClient := unixPair(b)
	backend, nearBackend := unixPair(b)
	nearClient.Close()
	nearBackend.Close()
	b.ReportAllocs()
	for b.Loop() {
		withRelay(client, backend)
	}
}
