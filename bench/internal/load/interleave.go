package load

import (
	"context"
	"fmt"
)

// Job is work for one target.
type Job struct {
	Target  Target
	Options Options
}

// Sample is what the rounds of one job gave, one value for each round.
type Sample struct {
	// CPU is the proxy's time in seconds per unit of work, Rate the units per second.
	CPU, Rate []float64
	// UserShare is the part of the CPU time spent outside the kernel, 0 to 1; rounds too short to tell are missing.
	UserShare []float64
	// P50 and P99 are percentiles of the time of one connection or message, in seconds.
	P50, P99 []float64
	// Failed counts what went wrong in all rounds; Err is the first such error.
	Failed int64
	Err    error
}

// Interleave runs every job once in each round, so that what else the machine does meanwhile hits all of them alike. The
// order rotates from round to round.
func Interleave(ctx context.Context, jobs []Job, rounds int) ([]Sample, error) {
	samples := make([]Sample, len(jobs))
	for round := range rounds {
		for k := range jobs {
			i := (k + round) % len(jobs)
			result, err := Run(ctx, jobs[i].Target, jobs[i].Options)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", jobs[i].Target.Name, err)
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			samples[i].add(result)
		}
	}
	return samples, nil
}

// add appends a round. A round in which nothing got done has failures, but no figures.
func (s *Sample) add(r Result) {
	s.Failed += r.Failed
	if s.Err == nil {
		s.Err = r.Err
	}
	if r.Units == 0 {
		return
	}
	units := float64(r.Units)
	s.CPU = append(s.CPU, r.CPU.Total.Seconds()/units)
	s.Rate = append(s.Rate, units/r.Wall.Seconds())
	if ticks := r.CPU.User + r.CPU.System; ticks > 0 {
		s.UserShare = append(s.UserShare, r.CPU.User.Seconds()/ticks.Seconds())
	}
	s.P50 = append(s.P50, r.P50.Seconds())
	s.P99 = append(s.P99, r.P99.Seconds())
}
