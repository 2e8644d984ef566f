package pipeline

// BodyHeadFilter is a RequestBodyFilter that is asked about the header of a request before anything of its body is read, and
// before a client that waits for it is told to send it. An error ends the request, as in every hook. RequestBody must refuse
// what RequestBodyHead does, since that isn't always asked:
//
//   - A request without a body isn't asked for. Without a length, and without `Expect`, only the first bytes tell that there
//     is one: then it is asked when they are here, if the body is held back. If it streams, it isn't.
//   - Nor is it if a filter in front that takes part may change the body: that may undo what this one would refuse.
type BodyHeadFilter interface {
	RequestBodyHead(x *Exchange) error
}

// askHeads asks the filters that take part whether the body may come at all.
func (b *requestBody) askHeads() error {
	x := b.x
	if x.h.plans.heads == 0 || x.r.ContentLength == 0 {
		return nil
	}
	if x.r.ContentLength < 0 && len(x.r.Header["Expect"]) == 0 {
		if begun, err := b.begin(); err != nil || !begun {
			return err
		}
	}
	for i := range x.h.entries {
		if x.skipped.Has(i) {
			continue
		}
		if x.h.plans.heads.Has(i) {
			if err := x.askHead(i); err != nil {
				return err
			}
		}
		if x.h.plans.writers.Has(i) {
			return nil
		}
	}
	return nil
}

// begin reads the first bytes of a body that is held back, and reports whether there are any.
func (b *requestBody) begin() (bool, error) {
	if !b.holding() {
		return false, nil
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	for len(b.in) == 0 && !b.eof {
		if err := b.fill(); err != nil {
			return false, b.fail(err)
		}
	}
	return len(b.in) > 0, nil
}

// askHead asks filter i. What it sets is of the body: it isn't asked twice.
func (x *Exchange) askHead(i int) error {
	asked := x.h.entries[i].requestBody.(BodyHeadFilter)
	err := x.call(i, func(x *Exchange) error {
		x.inBody = true
		defer func() { x.inBody = false }()
		return asked.RequestBodyHead(x)
	})
	if err != nil {
		x.last, x.struck = i, true
	}
	return err
}
