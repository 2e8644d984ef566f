package balancers

import (
	"strings"
	"testing"
)

// TestParseKey checks what each text means, and which layer has it.
func TestParseKey(t *testing.T) {
	for _, tc := range []struct {
		text         string
		want         Key
		layer4, http bool
	}{
		{"client_ip", Key{ClientIP, ""}, true, true},
		{"sni", Key{SNI, ""}, true, true},
		{"header x-user", Key{Header, "X-User"}, false, true},
		{"cookie session_id", Key{Cookie, "session_id"}, false, true},
		{"uri", Key{URI, ""}, false, true},
		{"query id", Key{QueryParameter, "id"}, false, true},
		{"query two words", Key{QueryParameter, "two words"}, false, true},
		{"{l4.sluice.pattern}", Key{Placeholder, "{l4.sluice.pattern}"}, true, false},
		{"{http.request.host}", Key{Placeholder, "{http.request.host}"}, false, true},
		{"{http.request.host} {http.request.uri.path}", Key{Placeholder, "{http.request.host} {http.request.uri.path}"}, false, true},
		{"{tenant}", Key{Placeholder, "{tenant}"}, true, true},
		{"user-{env.SITE}", Key{Placeholder, "user-{env.SITE}"}, true, true},
	} {
		t.Run(tc.text, func(t *testing.T) {
			got, err := ParseKey(tc.text)
			if err != nil || got != tc.want {
				t.Fatalf("got %+v, %v, want %+v", got, err, tc.want)
			}
			if got.Layer4() != tc.layer4 || got.HTTP() != tc.http {
				t.Errorf("got layer 4 %v, HTTP %v, want %v, %v", got.Layer4(), got.HTTP(), tc.layer4, tc.http)
			}
		})
	}
}

// TestNoKey checks that a policy without a key goes with both layers.
func TestNoKey(t *testing.T) {
	if k := (Key{}); !k.Layer4() || !k.HTTP() {
		t.Errorf("got layer 4 %v, HTTP %v, want both", k.Layer4(), k.HTTP())
	}
}

// TestParseKeyRefuses checks that what is no key is refused by name.
func TestParseKeyRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "is required"},
		{"source_ip", `"source_ip": must be client_ip, sni, header <name>, cookie <name>, uri, query <name>, or have a placeholder`},
		{"Client_IP", `"Client_IP": must be client_ip`},
		{"X-User", `"X-User": must be`},
		{"client_ip 24", `"client_ip 24": client_ip takes no name`},
		{"sni ", `"sni ": sni takes no name`},
		{"uri path", `"uri path": uri takes no name`},
		{"header", `"header": header needs a name`},
		{"header ", `"header ": header needs a name`},
		{"cookie", `"cookie": cookie needs a name`},
		{"query", `"query": query needs a name`},
		{"header X User", `"header X User": "X User" is not the name of a header`},
		{"header {http.vars.name}", `is not the name of a header`},
		{"header X-Ä", `is not the name of a header`},
		{"cookie a=b", `"a=b" is not the name of a cookie`},
		{"{}", `"{}": must be`},
		{"}{", `"}{": must be`},
		{"{http.request.host", `must be`},
		{"{client_ip}", `"{client_ip}": shorthand placeholders are for sites; here it is client_ip`},
		{"a-{host}", `here it is {http.request.host}`},
		{"{header.X-User}", `here it is header <name>`},
		{"{l4.sluice.sni} {http.request.host}", `has placeholders of connections and of requests`},
	} {
		if _, err := ParseKey(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got error %v, want one with %q", tc.text, err, tc.want)
		}
	}
}
