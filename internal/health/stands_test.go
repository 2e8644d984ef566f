package health

import "testing"

// refusal503 is an answer that is tried again.
var refusal503 = Failure{Outcome: Answered(503), Repeatable: true, Eligible: true, Begun: true}

// stands is a policy that tries such answers again, as far as the budget goes.
func stands(budget Budget, fall int) *Config {
	cfg := &Config{Retry: retries(1), Refuse: true, Passive: Passive{Thresholds: Thresholds{1, fall}, RetryAfter: DefaultRetryAfter}}
	cfg.Retry.Statuses.Add(503, 503)
	cfg.Retry.Budget = budget
	cfg.Passive.Statuses.Add(503, 503)
	return cfg
}

// TestStandingAnswerCountsOnce checks that an answer which stands, and then breaks off, is one failure, however many
// endpoints there are.
func TestStandingAnswerCountsOnce(t *testing.T) {
	for n := range 2 {
		r := newRig(t, stands(Budget{Percent: 1}, 2), n+1)
		req := r.admit()
		a := r.try(req, 0)
		if d := a.Reject(refusal503, 1, r.now); d.Action != Stop || d.Why != OverBudget {
			t.Fatalf("%d endpoints: got %+v", n+1, d)
		}
		a.Accepted()
		a.Done(Outcome{Kind: Reset}, r.now)
		req.Finish()
		if got := r.c.Statuses(r.now)[0]; !got.Reason.Available() || got.Failures != 1 {
			t.Errorf("%d endpoints: got %+v, want one failure", n+1, got)
		}
		r.wantIdle()
	}
}

// TestAnswerStandsWhereNoneIsLeft checks that an answer isn't given up for an endpoint that has gone meanwhile, whatever
// health makes of its status.
func TestAnswerStandsWhereNoneIsLeft(t *testing.T) {
	cfg := stands(Budget{1, 1}, 1)
	cfg.Passive, cfg.Active = Passive{}, Thresholds{1, 1}
	r := newRig(t, cfg, 1)
	req := r.admit()
	a := r.try(req, 0)
	r.check(0, "F")
	if d := a.Reject(refusal503, 1, r.now); d.Action != Stop || d.Why != NoOther {
		t.Errorf("got %+v", d)
	}
	a.Done(refusal503.Outcome, r.now)
	req.Finish()
	r.wantIdle()
}

// TestRetryThatStands checks that a retry whose answer stands, since it is what has taken out the last endpoint, is one until
// the answer is passed on.
func TestRetryThatStands(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		cfg := stands(Budget{1, 5}, 1)
		cfg.Retry.Max = 3
		r := newRig(t, cfg, 1)
		req := r.admit()
		r.try(req, 0).Fail(Failure{Outcome: Outcome{Kind: Connect}, Repeatable: true, Eligible: true}, 1, r.now)
		r.at(2 * DefaultRetryAfter)
		a := r.try(req, 0)
		if d := a.Reject(refusal503, 1, r.now); d.Why != NoOther || !a.Trial() {
			t.Errorf("got %+v, trial %v", d, a.Trial())
		}
		if accepted {
			a.Accepted()
		}
		if got := r.c.Stats().RetriesActive; (got == 0) != accepted {
			t.Errorf("accepted %v: got %d retries", accepted, got)
		}
		a.Proven(r.now) // too late: it is to blame
		if r.c.Statuses(r.now)[0].Reason.Available() {
			t.Error("the endpoint is back")
		}
		a.Done(refusal503.Outcome, r.now)
		req.Finish()
		r.wantIdle()
	}
}
