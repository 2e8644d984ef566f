package jsonscan

import (
	"fmt"
	"strings"
	"testing"
)

// kib10 is how long the documents of the benchmarks are.
const kib10 = 10 << 10

// shape is a document of some 10 KiB, without the member that is looked for.
type shape struct{ name, members string }

func shapes() []shape {
	turn := `{"role": "user", "content": "` + strings.Repeat(`What is the best way to write a parser? Please explain, and give me an example.\n`, 6) + `"},`
	message := `{"role": "user", "content": "What is the \"best\" way to write a parser?\nPlease explain."},`
	tool := `{"a":{"b":[1,2,3,true,null,{"c":"d"}],"e":-1.5e3}},`
	return []shape{
		{"text", `"prompt":"` + strings.Repeat("All work and no play makes Jack a dull boy. ", kib10/44) + `"`},
		{"wide_text", `"prompt":"` + strings.Repeat("我能吞下玻璃而不伤身体。", kib10/36) + `"`},
		{"escapes", `"prompt":"` + strings.Repeat(`\u00e9\n`, kib10/8) + `"`},
		{"turns", `"messages": [` + strings.Repeat(turn, kib10/len(turn)) + `{}]`},
		{"messages", `"messages": [` + strings.Repeat(message, kib10/len(message)) + `{}]`},
		{"tokens", `"tools":[` + strings.Repeat(tool, kib10/len(tool)) + `{}]`},
		{"names", strings.Repeat(`"temperature":0.7,`, kib10/18) + `"top_p":1`},
	}
}

const wantedMember = `"model":"gpt-4o-mini"`

func BenchmarkStrict(b *testing.B) {
	for _, shape := range shapes() {
		for place, document := range []string{"{" + wantedMember + "," + shape.members + "}", "{" + shape.members + "," + wantedMember + "}"} {
			name := fmt.Sprintf("%s/%s", shape.name, []string{"first", "last"}[place])
			b.Run(name, func(b *testing.B) { benchmark(b, document, true) })
		}
	}
}

func BenchmarkLax(b *testing.B) {
	for _, shape := range shapes() {
		b.Run(shape.name+"/last", func(b *testing.B) { benchmark(b, "{"+shape.members+","+wantedMember+"}", false) })
	}
}

func benchmark(b *testing.B, document string, strict bool) {
	query := mustQuery(b, Options{Names: []string{"model"}, Strict: strict})
	body := []byte(document)
	var s Scanner
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		s.Reset(query)
		s.Feed(body)
		if s.Close() != Found {
			b.Fatal(s.State())
		}
	}
}
