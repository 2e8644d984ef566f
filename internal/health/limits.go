package health

// Limits says how much may go on at a time, in a cluster or at one endpoint. 0 means that there is no limit. What is
// above a limit is refused at once; nothing waits.
type Limits struct {
	// Connections limits the connections that are being made or serve. One that is idle in a pool isn't counted.
	Connections int64
	// Pending limits the connections that are being made.
	Pending int64
	// Requests limits the requests; at an endpoint, the attempts.
	Requests int64
	// Retries limits the retries that wait or are under way.
	Retries int64
}

// Refusal says what stood in the way of a request, an attempt or a connection.
type Refusal uint8

const (
	// Granted means that nothing did.
	Granted Refusal = iota
	// ClusterRequests means that the cluster has as many requests as it may have.
	ClusterRequests
	// ClusterConnections means the same of its connections.
	ClusterConnections
	// ClusterPending means the same of its connections that are being made.
	ClusterPending
	// EndpointRequests means that the endpoint has as many attempts as it may have. Another one may do.
	EndpointRequests
	// EndpointConnections means the same of its connections.
	EndpointConnections
	// EndpointPending means the same of its connections that are being made.
	EndpointPending
	// EndpointRetries means the same of its attempts that are retries.
	EndpointRetries
	// TrialTaken means that the endpoint was offered for a single attempt, and that another one has come first.
	TrialTaken
	// Closed means that the endpoint was taken out by hand since it was offered.
	Closed
	// Finished means that the request is over.
	Finished
	// NoEndpoint means that no endpoint is offered.
	NoEndpoint
	refusalCount
)

// refusalNames has a name for each refusal.
var refusalNames = [refusalCount]string{
	"granted", "cluster_requests", "cluster_connections", "cluster_pending", "endpoint_requests",
	"endpoint_connections", "endpoint_pending", "endpoint_retries", "trial_taken", "closed", "finished", "no_endpoint",
}

// String returns the name of the refusal; "unknown" for a value that is none.
func (r Refusal) String() string {
	if r >= refusalCount {
		return "unknown"
	}
	return refusalNames[r]
}

// OfEndpoint says whether it was about the one endpoint only, so that another one may do.
func (r Refusal) OfEndpoint() bool {
	return r >= EndpointRequests && r <= EndpointRetries || r == TrialTaken || r == Closed
}

// refusal picks the refusal for the half of a pair that was at its limit.
func refusal(at half, whole, part Refusal) Refusal {
	switch at {
	case wholeHalf:
		return whole
	case partHalf:
		return part
	}
	return Granted
}
