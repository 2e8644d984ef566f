package session

import "github.com/caddy-sluice/sluice/internal/preread"

// CloseReason says why a connection ended. Each connection has exactly one. The set is closed: String is total.
type CloseReason uint8

// The close reasons. Open is the zero value: the connection has not ended.
const (
	Open CloseReason = iota
	Completed
	Error
	Shutdown
	SessionTimeout
	MaxDuration
	IdleTimeout
	HalfCloseTimeout
	FilterRejection
	AdmissionMemory
	AdmissionOpenFiles
	AdmissionPrereadMemory
	AdmissionProcess
	AdmissionListener
	AdmissionSourceIP
	ResolveFailure
	Guard
	NoEndpoint
	ClusterLimit
	ConnectFailure
	ReplayFailure
	ClientGone
	EndpointUnhealthy
	Drained
	Killed
	Internal
	HandedOver
	prereadFirst // the first of the reasons that stand for a preread.Reason, in that type's order
)

// closeReasonNames has one name for each reason up to prereadFirst; the length is part of the type, so that a
// reason without a name does not compile.
var closeReasonNames = [prereadFirst]string{
	Open:                   "",
	Completed:              "completed",
	Error:                  "error",
	Shutdown:               "shutdown",
	SessionTimeout:         "session_timeout",
	MaxDuration:            "max_duration",
	IdleTimeout:            "idle_timeout",
	HalfCloseTimeout:       "half_close_timeout",
	FilterRejection:        "filter_rejection",
	AdmissionMemory:        "admission_memory",
	AdmissionOpenFiles:     "admission_open_files",
	AdmissionPrereadMemory: "admission_preread_memory",
	AdmissionProcess:       "admission_process",
	AdmissionListener:      "admission_listener",
	AdmissionSourceIP:      "admission_source_ip",
	ResolveFailure:         "resolve_failure",
	Guard:                  "guard",
	NoEndpoint:             "no_endpoint",
	ClusterLimit:           "cluster_limit",
	ConnectFailure:         "connect_failure",
	ReplayFailure:          "replay_failure",
	ClientGone:             "client_gone",
	EndpointUnhealthy:      "endpoint_unhealthy",
	Drained:                "drained",
	Killed:                 "killed",
	Internal:               "internal",
	HandedOver:             "handed_over",
}

// ForPreread returns the close reason of a connection that was closed because the preread rejected it.
func ForPreread(r preread.Reason) CloseReason { return prereadFirst + CloseReason(r) - 1 }

// stops says whether the reason is one that comes from outside the connection.
func (r CloseReason) stops() bool {
	switch r {
	case Shutdown, Killed, Drained, EndpointUnhealthy:
		return true
	}
	return false
}

// Refused says whether the connection was not admitted, so that it never was one of ours.
func (r CloseReason) Refused() bool { return r >= AdmissionMemory && r <= AdmissionSourceIP }

// closeReasons is how many reasons there are.
const closeReasons = prereadFirst + CloseReason(preread.FrontClosed)

// String returns the name used in logs, metrics and placeholders.
func (r CloseReason) String() string {
	if r < prereadFirst {
		return closeReasonNames[r]
	}
	return "preread_" + preread.Reason(r-prereadFirst+1).String()
}
