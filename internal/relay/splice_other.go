//go:build !linux

package relay

// pipe and pipePool stand for those of Linux.
type (
	pipe     struct{}
	pipePool struct{}
)

func sharedPipes() *pipePool { return nil }

// fillPipe always asks for a copy: there is no splice(2) here.
func (d *direction) fillPipe(int) fill { return unspliced }

// drainPipe is not called.
func (d *direction) drainPipe() error { return nil }

func (d *direction) dropPipe() {}
