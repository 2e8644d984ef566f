package jsonscan_test

import (
	"fmt"

	"github.com/caddy-sluice/sluice/internal/jsonscan"
)

// A body comes in chunks, cut anywhere. One query serves all bodies, one scanner one after the other.
func Example() {
	query, err := jsonscan.NewQuery(jsonscan.Options{Names: []string{"model"}, Strict: true})
	if err != nil {
		panic(err)
	}
	var s jsonscan.Scanner
	for _, body := range [][]string{
		{`{"messages":[{"content":"Hi"}],"mo`, `del":"small`, `-1"}`},
		{`{"model":"small-1","mod`, `\u0065l":"large-1"}`},
		{`{"model":"a\r\nb"}`},
	} {
		s.Reset(query)
		for _, chunk := range body {
			if s.Feed([]byte(chunk)) != jsonscan.NeedMore {
				break
			}
		}
		state := s.Close()
		member := s.Member(0)
		fmt.Printf("%v %v, %v %v %q\n", state, s.Reason(), member.Kind, member.Unfit, member.Text)
	}
	// Output:
	// found none, string fit "small-1"
	// ambiguous duplicate, none fit ""
	// found none, string control_chars ""
}
