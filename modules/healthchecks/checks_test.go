package healthchecks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// kinds are the checks, each with the least that it needs.
var kinds = map[string]string{"tcp": `{}`, "tls": `{}`, "http": `{"path":"/"}`, "grpc": `{}`}

// TestTCP checks that the endpoint must accept a connection, and need not do more.
func TestTCP(t *testing.T) {
	got := make(chan int, 1)
	listening := conns.Serve(t, func(conn net.Conn) {
		n, _ := conn.Read(make([]byte, 1))
		got <- n
	})
	e := at(listening)
	e.ProxyProtocol = "v2"
	expect(t, ask(t, load(t, "tcp", `{}`), e), "")
	if n := <-got; n != 0 {
		t.Errorf("got %d bytes at the endpoint, want none", n)
	}
	expect(t, ask(t, load(t, "tcp", `{}`), at(refused(t))), "refused")
}

// TestZ125_Port checks that another port is asked, and only asked: it is not the target's from then on.
func TestZ125_Port(t *testing.T) {
	for name, least := range kinds {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			other := conns.Serve(t, func(net.Conn) { asked <- struct{}{} })
			settings := fmt.Sprintf(`{"port":%d,%s`, portAt(other), least[1:])
			if least == "{}" {
				settings = fmt.Sprintf(`{"port":%d}`, portAt(other))
			}
			e := at(refused(t))
			_ = ask(t, load(t, name, settings), e) // which checks that the target is as it was
			<-asked
		})
	}
}

// TestUnixSocket checks that a socket's own port is asked for, which says that the socket is meant, and no other.
func TestUnixSocket(t *testing.T) {
	dialled := errors.New("dialled")
	target := &Target{Path: "/run/backend.sock", Dial: func(_ context.Context, host string, port uint16) (net.Conn, error) {
		return nil, fmt.Errorf("%w: %q %d", dialled, host, port)
	}}
	for name, least := range kinds {
		if err := load(t, name, least).Check(t.Context(), target); !errors.Is(err, dialled) || err.Error() != `dialled: "" 0` {
			t.Errorf("%s: got error %v, want that of the dial", name, err)
		}
	}
	expect(t, load(t, "tcp", `{"port":80}`).Check(t.Context(), target), "port: a unix socket has none")
}

// TestZ48_Timeout has an endpoint that accepts and is silent, or is not there to accept: a check fails exactly when its
// time is over, or when it is called off.
func TestZ48_Timeout(t *testing.T) {
	for name, least := range kinds {
		for end, want := range map[string]error{"timeout": context.DeadlineExceeded, "called_off": context.Canceled} {
			for place, dial := range map[string]func(context.Context) (net.Conn, error){"silent": dialSilent, "blackhole": dialBlackhole} {
				if name == "tcp" && place == "silent" {
					continue // it is enough that it accepts
				}
				t.Run(name+"_"+end+"_"+place, func(t *testing.T) {
					c := load(t, name, least)
					synctest.Test(t, func(t *testing.T) { checkEnd(t, c, want, dial) })
				})
			}
		}
	}
}

// checkEnd checks that a check ends after exactly 2 s.
func checkEnd(t *testing.T, c Checker, want error, dial func(context.Context) (net.Conn, error)) {
	t.Helper()
	timeout := 2 * time.Second
	if want == context.Canceled {
		timeout = time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	time.AfterFunc(2*time.Second, func() {
		if timeout > 2*time.Second {
			cancel()
		}
	})
	start := time.Now()
	err := c.Check(ctx, &Target{Host: "a.example.test", Port: 80, Dial: func(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
		return dial(ctx)
	}})
	if !errors.Is(err, want) || NotMade(err) {
		t.Errorf("got error %v, want %v", err, want)
	}
	if took := time.Since(start); took != 2*time.Second {
		t.Errorf("got the end after %v, want 2s", took)
	}
}

func dialSilent(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go silent(far)
	return near, nil
}

func dialBlackhole(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestZ51_NotMade checks which errors are no verdict, also when a check has passed them on.
func TestZ51_NotMade(t *testing.T) {
	system := func(number syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", number)}
	}
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"open_files_of_the_process", system(syscall.EMFILE), true},
		{"open_files_of_the_machine", system(syscall.ENFILE), true},
		{"buffers", system(syscall.ENOBUFS), true},
		{"memory", system(syscall.ENOMEM), true},
		{"ports", system(syscall.EADDRNOTAVAIL), true},
		{"said_so", fmt.Errorf("no thread: %w", ErrNotMade), true},
		{"refused", system(syscall.ECONNREFUSED), false},
		{"reset", system(syscall.ECONNRESET), false},
		{"unreachable", system(syscall.EHOSTUNREACH), false},
		{"timeout", context.DeadlineExceeded, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, least := range kinds {
				err := load(t, name, least).Check(t.Context(), &Target{
					Host: "127.0.0.1", Port: 80,
					Dial: func(context.Context, string, uint16) (net.Conn, error) { return nil, tc.err },
				})
				if !errors.Is(err, tc.err) || NotMade(err) != tc.want {
					t.Errorf("%s: got error %v, no verdict %v, want %v", name, err, NotMade(err), tc.want)
				}
			}
		})
	}
	if NotMade(nil) {
		t.Error("a check without an error was made")
	}
}

// TestZ50_NothingIsLeft makes checks of all kinds at endpoints of all kinds, and some that are called off: no goroutine is
// left. That no connection is, every check of these tests sees to.
func TestZ50_NothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("checks", func(t *testing.T) {
		mute, garbage, gone := conns.Serve(t, silent), conns.Serve(t, says("garbage\r\n\r\n")), conns.Serve(t, func(net.Conn) {})
		for name, least := range kinds {
			c := load(t, name, least)
			for range 5 {
				for _, addr := range []net.Addr{garbage, gone, refused(t)} {
					if err := ask(t, c, at(addr)); err == nil && name != "tcp" {
						t.Errorf("%s: passed", name)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				if err := c.Check(ctx, &at(mute).Target); err == nil && name != "tcp" {
					t.Errorf("%s: passed", name)
				}
				cancel()
			}
		}
	})
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %d goroutines, want %d", runtime.NumGoroutine(), before)
		}
	}
}

// TestRefused checks that each error names its field and says what would be right.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ kind, settings, err string }{
		{"tcp", `{"port":65536}`, "port: 65536 is out of range, 1 to 65535"},
		{"tcp", `{"port":-1}`, "port: -1 is out of range"},
		{"tcp", `{"send":"x"}`, "send"},
		{"tls", `{"port":65536}`, "port: 65536 is out of range"},
		{"tls", `{"proxy_protocol":"relay"}`, `proxy_protocol: "relay" is not known; must be one of v1, v2, off`},
		{"tls", `{"alpn":["h2",""]}`, `alpn 1: "" must have 1 to 255 bytes`},
		{"tls", `{"server_name":"{nothing}"}`, `server_name: "{nothing}"`},
		{"tls", `{"ca_file":["{nothing}"]}`, `ca_file: "{nothing}"`},
		{"tls", `{"ca_file":["/nowhere.pem"]}`, "ca_file: open /nowhere.pem"},
		{"tls", `{"ca_file":["` + os.DevNull + `"]}`, "ca_file: " + os.DevNull + ": has no certificate"},
		{"http", `{}`, "path: is required"},
		{"http", `{"path":"healthz"}`, `path: "healthz" must begin with /`},
		{"http", `{"path":"http://a.test/"}`, `must begin with /`},
		{"http", `{"path":"/a#b"}`, `path: "/a#b" must have no fragment`},
		{"http", `{"path":"/a\r\nX: y"}`, "invalid control character"},
		{"http", `{"path":"/a\u007f"}`, "invalid control character"},
		{"http", `{"path":"/a%0d%0aX"}`, "must have no control characters"},
		{"http", `{"path":"/a%00"}`, "must have no control characters"},
		{"http", `{"path":"/a?b=%0a"}`, "must have no control characters"},
		{"http", `{"path":"/a?b=%zz"}`, `invalid URL escape "%zz"`},
		{"http", `{"path":"/%zz"}`, `path: "/%zz": invalid URL escape "%zz"`},
		{"http", `{"path":"/{nothing}"}`, `path: "/{nothing}"`},
		{"http", `{"path":"/","method":"CONNECT"}`, `method: "CONNECT"`},
		{"http", `{"path":"/","method":"get"}`, `method: "get" must be in capital letters: write GET`},
		{"http", `{"path":"/","method":"GET /x"}`, `method: "GET /x" is not the name of a method`},
		{"http", `{"path":"/","host":"a.test\r\nX: y"}`, "host: "},
		{"http", `{"path":"/","host":"a.test/b"}`, `host: "a.test/b" is no host`},
		{"http", `{"path":"/","host":"user@a.test"}`, `host: "user@a.test" is no host`},
		{"http", `{"path":"/","headers":{"X Y":["z"]}}`, `headers: "X Y" is not the name of a header field`},
		{"http", `{"path":"/","headers":{"host":["z"]}}`, "headers: Host is set by the check"},
		{"http", `{"path":"/","headers":{"Transfer-Encoding":["chunked"]}}`, "headers: Transfer-Encoding is set by the check"},
		{"http", `{"path":"/","headers":{"X":["a\r\nb"]}}`, `headers: X: "a\r\nb" is not the value of a header field`},
		{"http", `{"path":"/","headers":{"X":["{nothing}"]}}`, `headers: X: "{nothing}"`},
		{"http", `{"path":"/","expect_status":["2xx","600"]}`, `expect_status[1]: "600"`},
		{"http", `{"path":"/","expect_status":["099"]}`, `expect_status[0]: "099"`},
		{"http", `{"path":"/","expect_body":"("}`, "expect_body: error parsing regexp"},
		{"http", `{"path":"/","method":"HEAD","expect_body":"x"}`, "expect_body: an answer to HEAD has no body"},
		{"http", `{"path":"/","tls":false,"verify":true}`, "tls: is off, so server_name, ca_file and verify have no meaning"},
		{"http", `{"path":"/","port":65536}`, "port: 65536 is out of range"},
		{"http", `{"path":"/","proxy_protocol":"v3"}`, `proxy_protocol: "v3" is not known`},
		{"grpc", `{"service":"a b"}`, `service: "a b" must have at most 255 printable ASCII characters and no spaces`},
		{"grpc", `{"service":"caf\u00e9"}`, "service: "},
		{"grpc", `{"service":"` + strings.Repeat("x", maxService+1) + `"}`, "service: "},
		{"grpc", `{"service":"{nothing}"}`, `service: "{nothing}"`},
		{"grpc", `{"tls":false,"server_name":"a.test"}`, "tls: is off"},
		{"grpc", `{"port":65536}`, "port: 65536 is out of range"},
	} {
		t.Run(tc.kind+"_"+tc.err, func(t *testing.T) {
			_, err := modules.Load(t, Namespace+"."+tc.kind, tc.settings)
			expect(t, err, tc.err)
		})
	}
}
