package pipeline

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"testing"
)

const (
	// upload is how long the body is, growth how much more memory the process may take meanwhile, client and server in one.
	upload = 1 << 30
	growth = 32 << 20
)

// residentSize returns the memory that the process has, in bytes.
func residentSize(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(text)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// inChild is set in the process that measures.
const inChild = "SLUICE_UPLOAD_MEMORY"

// TestUploadMemory: a body that was held back and is released streams: it takes no memory, whatever its length. It has a
// process of its own, since what other tests leave behind comes and goes as it likes.
func TestUploadMemory(t *testing.T) {
	if os.Getenv(inChild) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUploadMemory$", "-test.v")
		child.Env = append(os.Environ(), inChild+"=1")
		out, err := child.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestUploadMemory")) {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	seen := 0
	release := onRequestBody{Wish{Access: ReadOnly, Mode: Buffer}, func(_ *Exchange, c *Chunk) (Action, error) {
		if seen += len(c.Bytes()); seen > 1<<20 {
			return Release, nil
		}
		return Continue, nil
	}}
	var got, most int64
	s := newSite(t, newHandler(t, entry{name: "a", requestBody: release}))
	s.backend = func(_ http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 64<<10)
		for {
			n, err := r.Body.Read(buf)
			if got += int64(n); got%(16<<20) < int64(n) {
				most = max(most, residentSize(t))
			}
			if err != nil {
				return
			}
		}
	}
	debug.FreeOSMemory()
	before := residentSize(t)
	body := io.LimitReader(zeros{}, upload)
	req, err := http.NewRequest(http.MethodPost, s.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = upload
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || got != upload {
		t.Fatalf("got status %d and %d bytes at the backend, want 200 and %d", res.StatusCode, got, upload)
	}
	if most-before > growth {
		t.Errorf("memory: got %d KiB more, want at most %d KiB", (most-before)>>10, growth>>10)
	}
	t.Logf("%d KiB more", (most-before)>>10)
}
