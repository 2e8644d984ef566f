package pipeline

// BodyHeadFilter is a RequestBodyFilter that is asked before anything of a body is read, and before a client that waits for
// it is told to send it. Requests that certainly have no body are not asked for. An error ends the request, as in every hook.
// The filter sees the header as it came: filters in front may change it later, and the body with it.
type BodyHeadFilter interface {
	RequestBodyHead(x *Exchange) error
}

// askHeads asks the filters that take part whether the body may come at all.
func (x *Exchange) askHeads() error {
	if x.r.ContentLength == 0 {
		return nil
	}
	for i := range x.h.entries {
		asked, ok := x.h.entries[i].requestBody.(BodyHeadFilter)
		if !ok || x.skipped.Has(i) {
			continue
		}
		if err := x.call(i, asked.RequestBodyHead); err != nil {
			x.last, x.struck = i, true
			return err
		}
	}
	return nil
}
