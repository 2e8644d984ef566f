package sluiceapp

// Admission are the limits of the process. They hold for the connections of all layer-4 routes with a module of ours.
type Admission struct {
	// How many connections there may be. Those that were handed over to Caddy's HTTP app count until they are closed.
	// Range: 1 to 10000000. Default: no limit. No placeholders.
	MaxConnections int64 `json:"max_connections,omitempty"`

	// How much memory the process may have in use before new connections are refused: a size such as `2GiB`, or a share
	// such as `80%` of what the control group or the machine has. It is read at most once a second, from Linux's
	// resident set size. Default: no limit. No placeholders.
	MemoryLimit string `json:"memory_limit,omitempty"`

	// How many open files to keep free: a number, or a share of the limit such as `5%`, which is at least 64. `0` turns
	// it off. Default: `5%`. No placeholders.
	OpenFilesReserve string `json:"open_files_reserve,omitempty"`
}
