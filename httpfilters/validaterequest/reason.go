package validaterequest

// reason is why a request was refused.
type reason uint8

const (
	inOrder reason = iota
	hostMissing
	hostMalformed
	hostConflict
	contentLength
	contentType
	reservedHeader
	nulInPath
	dotSegment
	encodedDotSegment
	encodedSlash
	reasonCount
)

// reasons has the names, for metrics and logs, and the errors, for `handle_errors`. What a client has sent is in neither.
var reasons = [reasonCount]struct {
	name string
	err  broken
}{
	inOrder:           {"in_order", ""},
	hostMissing:       {"host_missing", "the request names no host"},
	hostMalformed:     {"host_malformed", "the host is malformed"},
	hostConflict:      {"host_conflict", "the request names different hosts"},
	contentLength:     {"content_length", "the content length is malformed or ambiguous"},
	contentType:       {"content_type", "the request has different content types"},
	reservedHeader:    {"reserved_header", "the request has a header that is reserved"},
	nulInPath:         {"nul_in_path", "the path has a NUL in it"},
	dotSegment:        {"dot_segment", "the path has a segment of two dots"},
	encodedDotSegment: {"encoded_dot_segment", "the path has an encoded segment of two dots"},
	encodedSlash:      {"encoded_slash", "the path has an encoded slash or a backslash"},
}

// String returns the name of the reason.
func (r reason) String() string { return reasons[r].name }

// err returns the error of the reason.
func (r reason) err() error { return reasons[r].err }

// broken is the error of a request that breaks a rule.
type broken string

func (b broken) Error() string { return string(b) }
