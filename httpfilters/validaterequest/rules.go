package validaterequest

import (
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxHost is the longest host, with a port: a name has 253 bytes at most (RFC 1035 §2.3.4), a dot may stand behind it.
const maxHost = 254 + len(":65535")

// checkHost checks the host that a request is for (RFC 9112 §3.2, RFC 9113 §8.3.1). HTTP/1.0 needs none.
func checkHost(r *http.Request) reason {
	if strings.Trim(r.Host, " \t") == "" {
		if !r.ProtoAtLeast(1, 1) {
			return inOrder
		}
		return hostMissing
	}
	// With HTTP/2 a Host may come besides the :authority, and Go leaves it where it is.
	for _, host := range r.Header["Host"] {
		if host != r.Host {
			return hostConflict
		}
	}
	delete(r.Header, "Host")
	if r.URL.User != nil || len(r.Host) > maxHost || !validAuthority(r.Host) {
		return hostMalformed
	}
	return inOrder
}

// validAuthority says whether a text is a host with or without a port (RFC 3986 §3.2.2). A port may be empty.
func validAuthority(text string) bool {
	if literal, rest, ok := strings.Cut(text, "]"); ok {
		literal, opened := strings.CutPrefix(literal, "[")
		ip, err := netip.ParseAddr(literal)
		return opened && err == nil && ip.Is6() && ip.Zone() == "" && validPort(rest)
	}
	end := strings.IndexByte(text, ':')
	if end < 0 {
		end = len(text)
	}
	return end > 0 && validName(text[:end]) && validPort(text[end:])
}

// validName says whether a text has no byte that a name must not have.
func validName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-._~!$&'()*+,;=%", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// validPort says whether what stands behind a host is nothing or a port.
func validPort(text string) bool {
	if text == "" || text == ":" {
		return true
	}
	if text[0] != ':' {
		return false
	}
	_, err := strconv.ParseUint(text[1:], 10, 16)
	return err == nil
}

// collapse makes one of several lines of a header, and reports false if they differ.
func collapse(header http.Header, name string) bool {
	values := header[name]
	if len(values) < 2 {
		return true
	}
	for _, value := range values[1:] {
		if value != values[0] {
			return false
		}
	}
	header[name] = values[:1]
	return true
}

// validLength says whether the Content-Length is a number. Go takes another one for 0 with HTTP/2.
func validLength(header http.Header) bool {
	values := header["Content-Length"]
	if len(values) == 0 {
		return true
	}
	_, err := strconv.ParseUint(values[0], 10, 63)
	return err == nil
}

// checkPath applies the rules for paths.
func (h *Handler) checkPath(u *url.URL) reason {
	written, decoded := u.RawPath, u.Path
	if u.Opaque != "" { // what stands behind a scheme without slashes
		written, decoded = u.Opaque, u.Opaque
	}
	if written == "" { // it was written in the one way in which Go would
		written = decoded
	}
	if strings.IndexByte(decoded, 0) >= 0 {
		return nulInPath
	}
	if strings.Contains(decoded, "..") {
		plain, all := climbs(written), climbs(decoded)
		if plain > 0 && h.DotSegments == refuse {
			return dotSegment
		}
		if all > plain && h.EncodedDotSegments == refuse {
			return encodedDotSegment
		}
	}
	if h.EncodedSlashes == refuse && (strings.IndexByte(decoded, '\\') >= 0 || strings.Count(decoded, "/") > strings.Count(written, "/")) {
		return encodedSlash
	}
	return inOrder
}

// climbs counts the segments of two dots in a path. Some systems take a backslash for a slash, and some cut off what stands
// behind a semicolon in each segment before they look.
func climbs(path string) int {
	n := 0
	for segment := range strings.FieldsFuncSeq(path, isSlash) {
		if name, _, _ := strings.Cut(segment, ";"); name == ".." {
			n++
		}
	}
	return n
}

func isSlash(c rune) bool { return c == '/' || c == '\\' }
