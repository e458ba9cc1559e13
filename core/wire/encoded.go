package wire

// AppendResult begins the payload of a successful answer with a long result. The caller appends the result as JSON,
// then calls CloseResult.
func AppendResult(dst []byte) []byte { return append(dst, resultStart...) }

// CloseResult ends the payload that AppendResult has begun.
func CloseResult(dst []byte) []byte { return append(dst, resultEnd) }

const (
	resultStart = `{"success":true,"result":`
	resultEnd   = '}'
)

// partSize is how long a part of a Result becomes, in bytes. What is appended at once should be much shorter.
const (
	partSize = 256 << 10
	partRoom = 64 << 10 // for what exceeds partSize
)

// Result is the payload of a successful answer with a long result, in parts: what has been made is not copied when the answer grows.
// NewResult makes it.
type Result struct {
	// Tail is the part that grows. The caller appends JSON to it, and calls Next from time to time.
	Tail []byte
	full [][]byte
	size int // of full
}

// NewResult begins an answer.
func NewResult() *Result { return &Result{Tail: AppendResult(nil)} }

// Next begins another part if the present one is long enough, or if it is large and has no room for what the caller appends next.
func (r *Result) Next(room int) {
	if len(r.Tail) < partSize && (room < partRoom || cap(r.Tail)-len(r.Tail) >= room) {
		return
	}
	r.size += len(r.Tail)
	r.full = append(r.full, r.Tail)
	r.Tail = make([]byte, 0, max(partSize, room)+partRoom)
}

// Before is the size of the answer before its last part, in bytes.
func (r *Result) Before() int { return r.size }

// Len is the size of the answer so far, in bytes.
func (r *Result) Len() int { return r.size + len(r.Tail) }

// Close ends the answer and returns its parts, of which none is empty.
func (r *Result) Close() [][]byte { return append(r.full, CloseResult(r.Tail)) }

// ResultParts returns the result of an answer in parts, without a copy. Several parts are a Result; the errors for a single
// one are those of DecodeResponse.
func ResultParts(parts [][]byte) ([][]byte, error) {
	if len(parts) == 1 {
		result, err := decodeResponse(parts[0])
		return [][]byte{result}, err
	}
	result := append([][]byte(nil), parts...)
	last := len(result) - 1
	result[0] = result[0][len(resultStart):]
	result[last] = result[last][:len(result[last])-1]
	return result, nil
}
