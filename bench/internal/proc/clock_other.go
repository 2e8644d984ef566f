//go:build !linux

package proc

import (
	"errors"
	"time"
)

func processTime(int) (time.Duration, error) {
	return 0, errors.ErrUnsupported
}
