package balancers

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// ParseKey reads a key: `client_ip`, `sni`, `header <name>`, `cookie <name>`, `uri`, `query <name>`, or a text with
// placeholders, those of connections or those of requests.
func ParseKey(text string) (Key, error) {
	word, name, named := strings.Cut(text, " ")
	source := sourceOf(word)
	switch {
	case text == "":
		return Key{}, errors.New("is required")
	case source == NoKey:
		return parsePlaceholders(text)
	case !source.named() && named:
		return Key{}, fmt.Errorf("%q: %s takes no name", text, word)
	case source.named() && name == "":
		return Key{}, fmt.Errorf("%q: %s needs a name", text, word)
	case source == QueryParameter:
		return Key{source, name}, nil
	case named && !httpguts.ValidHeaderFieldName(name):
		return Key{}, fmt.Errorf("%q: %q is not the name of a %s", text, name, word)
	case source == Header:
		name = textproto.CanonicalMIMEHeaderKey(name)
	}
	return Key{source, name}, nil
}

// words are the words for what a key can be. A text with placeholders has none.
var words = [...]string{ClientIP: "client_ip", SNI: "sni", Header: "header", Cookie: "cookie", URI: "uri", QueryParameter: "query", Placeholder: ""}

// sourceOf returns the source of a word; NoKey if there is none.
func sourceOf(word string) Source {
	if word == "" {
		return NoKey
	}
	return Source(max(slices.Index(words[:], word), int(NoKey)))
}

// String returns the key as ParseKey reads it.
func (k Key) String() string { return strings.TrimSpace(words[k.Source] + " " + k.Name) }

// named says whether keys of the source have a name.
func (s Source) named() bool { return s == Header || s == Cookie || s == QueryParameter }

// What placeholders of connections and of requests begin with.
const (
	layer4Prefix = "{l4."
	httpPrefix   = "{http."
)

// shorthands are placeholders that Caddy replaces in sites only: they would be empty here. Each has the words for it.
var shorthands = []struct{ begin, instead string }{
	{"{client_ip}", "client_ip"},
	{"{remote_host}", "{http.request.remote.host}"},
	{"{host}", "{http.request.host}"},
	{"{uri}", "uri"},
	{"{path}", "{http.request.uri.path}"},
	{"{query}", "{http.request.uri.query}"},
	{"{header.", "header <name>"},
	{"{cookie.", "cookie <name>"},
	{"{query.", "query <name>"},
}

// parsePlaceholders reads a text with placeholders.
func parsePlaceholders(text string) (Key, error) {
	_, rest, _ := strings.Cut(text, "{")
	if strings.IndexByte(rest, '}') < 1 {
		return Key{}, fmt.Errorf("%q: must be client_ip, sni, header <name>, cookie <name>, uri, query <name>, or have a placeholder", text)
	}
	for _, s := range shorthands {
		if strings.Contains(text, s.begin) {
			return Key{}, fmt.Errorf("%q: shorthand placeholders are for sites; here it is %s", text, s.instead)
		}
	}
	key := Key{Placeholder, text}
	if !key.Layer4() && !key.HTTP() {
		return Key{}, fmt.Errorf("%q: has placeholders of connections and of requests", text)
	}
	return key, nil
}

// Layer4 says whether connections have such a key. They do without a key of the balancer too.
func (k Key) Layer4() bool {
	switch k.Source {
	case Header, Cookie, URI, QueryParameter:
		return false
	case Placeholder:
		return !strings.Contains(k.Name, httpPrefix)
	}
	return true
}

// HTTP says whether requests have such a key. They do without a key of the balancer too.
func (k Key) HTTP() bool { return k.Source != Placeholder || !strings.Contains(k.Name, layer4Prefix) }
