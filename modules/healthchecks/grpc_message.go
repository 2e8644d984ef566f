package healthchecks

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// prefixLength is the length of what stands before a message: whether it is compressed, and how long it is.
	prefixLength = 5
	// maxMessage is how many bytes a message of an answer may have, with its prefix. It has one number in it; the rest is
	// for what later versions of the protocol may add.
	maxMessage = 4096

	// statusField is the number of the field `status` in an answer, serviceField that of `service` in a request.
	statusField  = 1
	serviceField = 1
	// statusServing is the status of a service that works.
	statusServing = 1

	// The kinds of fields in protobuf's encoding.
	wireVarint = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireFixed4 = 5
)

var (
	errMessage    = errors.New("malformed message")
	errCompressed = errors.New("the message is compressed, which nobody has asked for")
)

// encodeRequest makes the message that asks about a service, with its prefix.
func encodeRequest(service string) []byte {
	message := make([]byte, prefixLength, prefixLength+len(service)+binary.MaxVarintLen64)
	if service != "" {
		message = append(message, serviceField<<3|wireBytes)
		message = binary.AppendUvarint(message, uint64(len(service)))
		message = append(message, service...)
	}
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-prefixLength))
	return message
}

// decodeResponse returns the status in the one message that a body consists of. It is 0, for unknown, if there is none.
func decodeResponse(body []byte) (status uint64, err error) {
	if len(body) < prefixLength || uint64(len(body)-prefixLength) != uint64(binary.BigEndian.Uint32(body[1:])) {
		return 0, fmt.Errorf("got %d bytes, want one message", len(body))
	}
	if body[0] != 0 {
		return 0, errCompressed
	}
	for rest := body[prefixLength:]; len(rest) > 0; {
		tag, value, length := decodeField(rest)
		if length == 0 {
			return 0, errMessage
		}
		if tag == statusField<<3|wireVarint {
			status = value // the last one counts
		}
		rest = rest[length:]
	}
	return status, nil
}

// decodeField reads the field at the beginning of b. It returns its number and kind, its value if that is a varint, and
// how many bytes it has; 0 if it is malformed.
func decodeField(b []byte) (tag, value uint64, length int) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag>>3 == 0 {
		return 0, 0, 0
	}
	rest := b[n:]
	switch tag & 7 {
	case wireVarint:
		value, size := binary.Uvarint(rest)
		if size <= 0 {
			return 0, 0, 0
		}
		return tag, value, n + size
	case wireBytes:
		bytes, size := binary.Uvarint(rest)
		if size <= 0 || bytes > uint64(len(rest)-size) {
			return 0, 0, 0
		}
		return tag, 0, n + size + int(bytes)
	case wireFixed8, wireFixed4:
		size := 4
		if tag&7 == wireFixed8 {
			size = 8
		}
		if len(rest) < size {
			return 0, 0, 0
		}
		return tag, 0, n + size
	}
	return 0, 0, 0
}
