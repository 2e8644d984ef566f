package balancers

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
)

// ParseKey reads a key: `client_ip`, `sni`, `header <name>`, `cookie <name>`, `uri`, `query <name>`, or a text with
// placeholders, those of connections or those of requests.
func ParseKey(text string) (Key, error) {
	word, name, named := strings.Cut(text, " ")
	source, known := sources[word]
	switch {
	case text == "":
		return Key{}, errors.New("is required")
	case !known:
		return parsePlaceholders(text)
	case !source.named() && named:
		return Key{}, fmt.Errorf("%q: %s takes no name", text, word)
	case source.named() && name == "":
		return Key{}, fmt.Errorf("%q: %s needs a name", text, word)
	case source == QueryParameter:
		return Key{source, name}, nil
	case named && !isToken(name):
		return Key{}, fmt.Errorf("%q: %q is not the name of a %s", text, name, word)
	case source == Header:
		name = textproto.CanonicalMIMEHeaderKey(name)
	}
	return Key{source, name}, nil
}

// sources are the words for what a key can be.
var sources = map[string]Source{
	"client_ip": ClientIP, "sni": SNI, "header": Header, "cookie": Cookie, "uri": URI, "query": QueryParameter,
}

// named says whether keys of the source have a name.
func (s Source) named() bool { return s == Header || s == Cookie || s == QueryParameter }

// isToken says whether a text is a token, as names of headers and cookies are (RFC 9110 section 5.6.2).
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

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
