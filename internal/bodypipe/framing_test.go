package bodypipe

import "testing"

func TestContent(t *testing.T) {
	for _, tt := range []struct {
		method string
		status int
		want   Content
	}{
		{"GET", 200, HasContent},
		{"GET", 206, HasContent},
		{"POST", 500, HasContent},
		{"GET", 100, NoContent},
		{"GET", 101, Tunnel},
		{"GET", 103, NoContent},
		{"GET", 204, NoContent},
		{"GET", 304, HeadOnly},
		{"HEAD", 200, HeadOnly},
		{"HEAD", 204, NoContent},
		{"HEAD", 304, HeadOnly},
		{"CONNECT", 200, Tunnel},
		{"CONNECT", 204, Tunnel},
		{"CONNECT", 502, HasContent},
		{"head", 200, HasContent},
	} {
		if got := ResponseContent(tt.method, tt.status); got != tt.want {
			t.Errorf("%s %d: got %v, want %v", tt.method, tt.status, got, tt.want)
		}
	}
}

func TestFrame(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   Message
		want Framing
	}{
		{"untouched", Message{Declared: 5, Final: -1}, Framing{true, 5, true}},
		{"untouched and held", Message{Declared: 5, Final: 5}, Framing{true, 5, true}},
		{"untouched chunks", Message{Declared: -1, Final: -1}, Framing{true, -1, true}},
		{"untouched chunks, held", Message{Declared: -1, Final: 5}, Framing{true, 5, true}},
		{"no body", Message{Declared: 0, Final: -1}, Framing{true, 0, true}},
		{"H78_grown", Message{Declared: 5, Change: Changed, Final: 6}, Framing{true, 6, false}},
		{"H78_shrunk", Message{Declared: 5, Change: Changed, Final: 4}, Framing{true, 4, false}},
		{"same length", Message{Declared: 5, Change: Changed, Final: 5}, Framing{true, 5, false}},
		{"H94_emptied", Message{Declared: 5, Change: Changed, Final: 0}, Framing{true, 0, false}},
		{"adapted chunks", Message{Declared: -1, Change: Changed, Final: 5}, Framing{true, 5, false}},
		{"changed on its way", Message{Declared: 5, Change: MayChange, Final: -1}, Framing{true, -1, false}},
		{"changed so far, rest unknown", Message{Declared: 5, Change: Changed, Final: -1}, Framing{true, -1, false}},
		{"trailers", Message{Declared: -1, Final: 5, Trailers: true}, Framing{true, -1, true}},
		{"trailers after a declared length", Message{Declared: 5, Final: 5, Trailers: true}, Framing{true, 5, true}},
		{"trailers after a changed body", Message{Declared: 5, Change: Changed, Final: 6, Trailers: true}, Framing{true, -1, false}},
		{"HEAD", Message{Content: HeadOnly, Declared: 5, Final: -1}, Framing{false, 5, true}},
		{"HEAD without a length", Message{Content: HeadOnly, Declared: -1, Final: 0}, Framing{false, -1, true}},
		{"HEAD of what a writer changes", Message{Content: HeadOnly, Declared: 5, Change: MayChange, Final: 0}, Framing{false, -1, false}},
		{"204", Message{Content: NoContent, Declared: 0, Final: 0}, Framing{false, -1, true}},
		{"tunnel", Message{Content: Tunnel, Declared: 5, Change: MayChange, Final: 0}, Framing{false, -1, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Frame(tt.in); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestFrameLaws goes through all messages: a length is never a guess, and never there where it mustn't be.
func TestFrameLaws(t *testing.T) {
	for _, m := range allMessages() {
		f := Frame(m)
		if f.Filter != (m.Content == HasContent) {
			t.Errorf("%+v: got filters %v", m, f.Filter)
		}
		if f.Length >= 0 && (m.Content == NoContent || m.Content == Tunnel) {
			t.Errorf("%+v: got a length %d where none may be", m, f.Length)
		}
		declared := f.Length == m.Declared && m.Change == Unchanged
		counted := f.Length == m.Final && m.Content == HasContent
		if f.Length >= 0 && !declared && !counted {
			t.Errorf("%+v: got a length %d that nobody knows", m, f.Length)
		}
		if m.Content == HasContent && m.Trailers && f.Length >= 0 && !declared {
			t.Errorf("%+v: got a new length %d, want the trailers kept", m, f.Length)
		}
		if f.Intact && m.Change != Unchanged && m.Content != Tunnel {
			t.Errorf("%+v: got an intact body", m)
		}
	}
}

func allMessages() []Message {
	var all []Message
	for i := range 4 * 3 * 2 * 3 * 3 {
		all = append(all, Message{
			Content: Content(i % 4), Change: Change(i / 4 % 3), Trailers: i/12%2 == 1,
			Declared: int64(i/24%3) - 1, Final: int64(i/72%3)*2 - 1,
		})
	}
	return all
}
