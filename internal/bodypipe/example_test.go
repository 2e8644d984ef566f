package bodypipe_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/internal/permit"
)

// reader reads what filters make of a body.
type reader struct {
	src  io.Reader
	pipe *bodypipe.Pipe
	buf  []byte // what src is read into
	in   []byte // what the pipe hasn't taken
	eof  bool   // src ends after in
	out  []byte // what goes on
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.pipe.Ended() {
			return 0, io.EOF
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
		n, out, err := r.pipe.Push(r.in, r.eof)
		if err != nil {
			return 0, err
		}
		r.in, r.out = r.in[n:], out
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// fill reads more, if the pipe has taken all.
func (r *reader) fill() error {
	if len(r.in) > 0 || r.eof {
		return nil
	}
	n, err := r.src.Read(r.buf)
	r.in = r.buf[:n]
	if r.eof = errors.Is(err, io.EOF); r.eof {
		return nil
	}
	return err
}

// shout makes capitals of all that it sees, and refuses a word.
type shout struct{}

func (shout) Filter(_ int, c *bodypipe.Chunk) (bodypipe.Action, error) {
	if bytes.Contains(c.Bytes(), []byte("secret")) {
		return bodypipe.Continue, bodypipe.Refuse(403)
	}
	c.Replace(bytes.ToUpper(c.Bytes()))
	return bodypipe.Continue, nil
}

func ExamplePipe() {
	plan, err := bodypipe.NewPlan(1<<20, bodypipe.Wish{Access: bodypipe.ReadWrite, Mode: bodypipe.Buffer, Whole: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	budget := bodypipe.Budget{Held: new(permit.Gauge), Limit: 64 << 20}
	var pipe bodypipe.Pipe
	defer pipe.Close()
	for _, body := range []string{"some words", "a secret"} {
		pipe.Start(bodypipe.Setup{Plan: plan, Host: shout{}, Budget: budget})
		got, err := io.ReadAll(&reader{src: strings.NewReader(body), pipe: &pipe, buf: make([]byte, 4)})
		if err != nil {
			fmt.Println(bodypipe.RequestStatus(err), err)
			continue
		}
		fmt.Printf("%s, %d bytes\n", got, len(got))
	}
	// Output:
	// SOME WORDS, 10 bytes
	// 403 refused by a filter with status 403
}
