package jsonfield

import (
	"mime"
	"net/http"
	"slices"
	"strings"
)

// encoded reports whether the body of a request is compressed. Empty elements of the list mean nothing (RFC 9110 section
// 5.6.1.2).
func encoded(r *http.Request) bool {
	for _, value := range r.Header["Content-Encoding"] {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = strings.Trim(coding, " \t"); coding != "" && !strings.EqualFold(coding, "identity") {
				return true
			}
		}
	}
	return false
}

// charset is the parameter of a media type that says how its bytes become text.
const charset = "charset"

// foreign reports whether another reader may take the bytes of a body for other text than we do: one that heeds the
// charset of the Content-Type, however it finds it there. What can't be read, or in several ways, is foreign if it says
// anything of a charset at all.
func foreign(r *http.Request) bool {
	values := r.Header["Content-Type"]
	if len(values) == 0 {
		return false
	}
	if slices.ContainsFunc(values, func(other string) bool { return other != values[0] }) {
		return true
	}
	switch lower := strings.ToLower(values[0]); {
	case lower == "application/json; charset=utf-8": // the usual one costs nothing
		return false
	case !strings.Contains(lower, charset):
		return false
	case strings.Count(lower, charset) > 1, !strings.Contains(lower, charset+"="):
		return true
	}
	_, params, err := mime.ParseMediaType(values[0])
	if err != nil {
		return true
	}
	switch strings.ToLower(params[charset]) {
	case "utf-8", "utf8", "us-ascii":
		return false
	}
	return true
}
