package pipeline

// TooLargeFilter is a RequestBodyFilter that is told when a body is refused for its length before anything of it has gone
// on, and the filter has set no result `status`: it may not have seen any of the body. It can set results, and nothing else.
type TooLargeFilter interface {
	RequestTooLarge(x *Exchange)
}

// tellTooLarge tells the filters that take part of a body that is refused for its length. Nobody else has the request yet.
func (x *Exchange) tellTooLarge(err error) {
	if reasonOf(err) != bodyTooLarge {
		return
	}
	for i := range x.h.entries {
		e := &x.h.entries[i]
		if told, ok := e.requestBody.(TooLargeFilter); ok && x.decided.Has(i) && !x.skipped.Has(i) && !x.hasStatus(i) {
			_ = x.call(i, func(x *Exchange) error { told.RequestTooLarge(x); return nil })
		}
	}
}

// hasStatus reports whether a filter has set its result `status`.
func (x *Exchange) hasStatus(i int) bool {
	if x.results == nil {
		return false
	}
	_, has := x.results.of(x.h, i, statusKey)
	return has
}
