package relay

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"
)

// certificate is a self-signed one.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// tlsPair returns a TLS connection over TCP, its handshake done.
func tlsPair(t testing.TB) (net.Conn, stream) {
	t.Helper()
	nearSocket, farSocket := tcpPair(t)
	near := tls.Server(nearSocket, &tls.Config{Certificates: []tls.Certificate{certificate()}})
	far := tls.Client(farSocket, &tls.Config{InsecureSkipVerify: true})
	done := make(chan error, 1)
	go func() { done <- near.Handshake() }()
	if err := far.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return near, far
}
