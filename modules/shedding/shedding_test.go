package shedding

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// rig is a watch, and what it has written.
type rig struct {
	*testing.T
	Watch
	logs   *observer.ObservedLogs
	logger *zap.Logger
}

func newRig(t *testing.T, requests bool) *rig {
	core, logs := observer.New(zap.InfoLevel)
	return &rig{t, Watch{Requests: requests, Subject: zap.String("gate", "door")}, logs, zap.New(core)}
}

// refuse refuses so many, with a pause of the bubble after each, in which no time passes.
func (r *rig) refuse(times int, pause time.Duration) {
	for range times {
		r.Refused(r.logger, zap.String("listener", "here"))
		time.Sleep(pause)
	}
}

// want checks that there is one new line.
func (r *rig) want(level zapcore.Level, message string, fields map[string]any) {
	r.Helper()
	synctest.Wait()
	got := r.logs.TakeAll()
	if len(got) != 1 || got[0].Level != level || got[0].Message != message || !maps.Equal(got[0].ContextMap(), fields) {
		r.Fatalf("got %v, want one line %q with %v", got, message, fields)
	}
}

// wantNone checks that there is none.
func (r *rig) wantNone() {
	r.Helper()
	synctest.Wait()
	if got := r.logs.TakeAll(); len(got) > 0 {
		r.Fatalf("got %v, want nothing", got)
	}
}

// begin and end are the fields of the lines.
var begin = map[string]any{"gate": "door", "listener": "here"}

func end(reason string, refused uint64, duration time.Duration) map[string]any {
	return map[string]any{"gate": "door", "reason": reason, "refused": refused, "duration": duration}
}

// TestWatch checks that the log says when it begins and when it is over, whatever comes in between, and again the next time.
func TestWatch(t *testing.T) {
	for _, tc := range []struct {
		requests    bool
		begun, over string
	}{
		{false, "refusing connections", "no more connections refused"},
		{true, "refusing requests", "no more requests refused"},
	} {
		t.Run(tc.begun, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tc.requests)
				r.refuse(1000, time.Second)
				r.want(zap.WarnLevel, tc.begun, begin)
				time.Sleep(Calm - 2*time.Second)
				r.wantNone()
				time.Sleep(2 * time.Second)
				r.want(zap.InfoLevel, tc.over, end("quiet", 1000, 999*time.Second))
				time.Sleep(time.Hour)
				r.refuse(1, 0)
				r.want(zap.WarnLevel, tc.begun, begin)
				time.Sleep(Calm)
				r.want(zap.InfoLevel, tc.over, end("quiet", 1, 0))
			})
		})
	}
}

// TestStop checks that what has begun doesn't stay open when the config goes, and that nothing comes after that.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.refuse(3, time.Second)
		r.want(zap.WarnLevel, "refusing requests", begin)
		r.Stop()
		r.want(zap.InfoLevel, "no more requests refused", end("config_gone", 3, 2*time.Second))
		r.Stop()
		r.refuse(1, 0)
		time.Sleep(time.Hour)
		r.wantNone()
	})
}

// TestStopUnused checks that the log doesn't say that what hasn't begun is over.
func TestStopUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.Stop()
		r.wantNone()
	})
}
