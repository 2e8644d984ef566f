package bodypipe

// Content says what of a body a message has.
type Content uint8

const (
	// HasContent is a message with a body, which may be empty.
	HasContent Content = iota
	// HeadOnly has the header of a message with a body: the answer to HEAD, and 304.
	HeadOnly
	// NoContent has neither a body nor a length: 204 and 1xx.
	NoContent
	// Tunnel is what follows the header of an upgrade (101) or of a CONNECT (2xx). It is no body, filters stay out of it.
	Tunnel
)

// ResponseContent returns what of a body a response has, from the method of its request and its status (RFC 9112 §6.3).
func ResponseContent(method string, status int) Content {
	switch {
	case status == 101, method == "CONNECT" && status/100 == 2:
		return Tunnel
	case status/100 == 1, status == 204:
		return NoContent
	case method == "HEAD", status == 304:
		return HeadOnly
	}
	return HasContent
}

// Change says what filters do to a body.
type Change uint8

const (
	// Unchanged is nothing: no filter writes, or the body is over and none did.
	Unchanged Change = iota
	// MayChange is not known when the header goes out.
	MayChange
	// Changed is that a filter replaced bytes.
	Changed
)

// Message is what is known of a message when its header goes out.
type Message struct {
	Content Content
	// Declared is the Content-Length it came with, -1 for none.
	Declared int64
	Change   Change
	// Final is the length of what goes on, if all of it is at hand; otherwise -1.
	Final int64
	// Trailers reports that it announced or has trailers.
	Trailers bool
}

// Framing says how a message goes on. A Transfer-Encoding that it came with never goes on: the transport writes its own.
type Framing struct {
	// Filter reports that there is a body for filters to see.
	Filter bool
	// Length is the Content-Length to send. -1 is none: a body then goes chunked, or to the end of the stream.
	Length int64
	// Intact reports that what the header says of the body's bytes is still true. Otherwise Accept-Ranges, Content-MD5,
	// Content-Digest, Repr-Digest and Digest are removed, also as trailers, and a strong ETag is made weak.
	Intact bool
}

// Frame decides how a message goes on. Trailers are kept: as HTTP/1.1 sends them with a chunked body only, a message
// that has them gets no Content-Length but the one it came with.
func Frame(m Message) Framing {
	f := Framing{Filter: m.Content == HasContent, Length: -1, Intact: m.Change == Unchanged}
	switch {
	case m.Content == Tunnel:
		f.Intact = true
	case m.Content == NoContent:
		// No Content-Length here (RFC 9110 §8.6).
	case f.Intact && m.Declared >= 0:
		f.Length = m.Declared
	case m.Content == HeadOnly, m.Trailers:
		// The length of the body that isn't sent is what it would be with GET, which nobody knows.
	case m.Final >= 0:
		f.Length = m.Final
	}
	return f
}
