//go:build !linux

package relay

// canPark says that there is no lot here.
const canPark = false

// spot and lot stand for those of Linux.
type (
	spot struct{}
	lot  struct{}
)

func sharedLot() *lot { return nil }

func (*lot) park(*direction) bool { return false }

func (*lot) leave(*direction) bool { return false }
