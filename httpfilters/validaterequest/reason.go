package validaterequest

import "errors"

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
	err  error
}{
	inOrder:           {"in_order", nil},
	hostMissing:       {"host_missing", errors.New("the request names no host")},
	hostMalformed:     {"host_malformed", errors.New("the host is malformed")},
	hostConflict:      {"host_conflict", errors.New("the request names different hosts")},
	contentLength:     {"content_length", errors.New("the content length is malformed or ambiguous")},
	contentType:       {"content_type", errors.New("the request has different content types")},
	reservedHeader:    {"reserved_header", errors.New("the request has a header that is reserved")},
	nulInPath:         {"nul_in_path", errors.New("the path has a NUL in it")},
	dotSegment:        {"dot_segment", errors.New("the path has a segment of two dots")},
	encodedDotSegment: {"encoded_dot_segment", errors.New("the path has an encoded segment of two dots")},
	encodedSlash:      {"encoded_slash", errors.New("the path has an encoded slash or a backslash")},
}

// String returns the name of the reason.
func (r reason) String() string { return reasons[r].name }

// err returns the error of the reason.
func (r reason) err() error { return reasons[r].err }
