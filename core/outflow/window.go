package outflow

import "sort"

const (
	// windowMin is the size of a window at the first byte. It doubles up to the capacity, so that a command with little output costs
	// little.
	windowMin = 16 << 10
	// piecesMax bounds the pieces of a window: a command may change between its streams with each byte. When it has ended, there may be
	// piecesEnding more.
	piecesMax    = 8 << 10
	piecesEnding = 1 << 10
)

// window is the latest output of a job, in the order in which it was read.
//
// Invariant: ring has the bytes with the sums [begin, end), the byte with sum n at n modulo its length. pieces covers them: each
// piece begins where the former one ends, and neighbours are of different streams. ring is larger than capacity only for output that must
// stay.
type window struct {
	capacity   int
	ending     int // how many bytes may stay beyond capacity when a command has ended
	ring       []byte
	begin, end int64
	total      Position // of all output, the sum of which is end
	pieces     []piece
}

// piece is output of one stream without a byte of the other in between.
type piece struct {
	stream Stream
	from   Position // its beginning; that of the first piece may be before begin
}

// add appends output, at most as much as room says. The oldest bytes give way; those from the sum keep on stay.
func (w *window) add(s Stream, output []byte, keep int64) {
	if len(output) == 0 {
		return
	}
	w.resize(len(output), keep)
	at := int(w.end % int64(len(w.ring)))
	n := copy(w.ring[at:], output)
	copy(w.ring, output[n:])
	if last := len(w.pieces) - 1; last < 0 || w.pieces[last].stream != s {
		w.pieces = append(w.pieces, piece{s, w.total})
	}
	w.total = w.total.plus(s, int64(len(output)))
	w.end += int64(len(output))
	w.begin = max(w.begin, w.end-int64(len(w.ring)))
	if surplus := len(w.pieces) - piecesMax - piecesEnding; surplus > 0 {
		w.begin = max(w.begin, w.pieces[surplus].from.Sum())
	}
	w.pieces = w.pieces[w.find(w.begin):]
}

// resize makes room for n bytes more: for all that must stay, and for others as far as the capacity goes.
func (w *window) resize(n int, keep int64) {
	needed := max(int(w.end-keep)+n, min(int(w.end-w.begin)+n, w.capacity))
	size, most := max(len(w.ring), windowMin), w.capacity
	if needed > most {
		most += w.ending
	}
	for size < needed {
		size *= 2
	}
	if size = min(size, most); size == len(w.ring) {
		return
	}
	resized := make([]byte, size)
	w.begin = max(w.begin, w.end-int64(size))
	for sum := w.begin; sum < w.end; {
		sum += int64(copy(resized[sum%int64(size):], w.at(sum, w.end)))
	}
	w.ring = resized
}

// at is the bytes from a sum on, up to another sum or the end of the ring's array.
func (w *window) at(sum, until int64) []byte {
	from := sum % int64(len(w.ring))
	return w.ring[from:min(from+until-sum, int64(len(w.ring)))]
}

// find is the index of the piece that has the byte with that sum; 0 if there are no pieces.
func (w *window) find(sum int64) int {
	after := sort.Search(len(w.pieces), func(i int) bool { return w.pieces[i].from.Sum() > sum })
	return max(after-1, 0)
}

// read copies bytes of one stream, from a sum in [begin, end) on. at is the place of the first one.
func (w *window) read(sum int64, into []byte) (s Stream, at Position, n int) {
	i := w.find(sum)
	until := w.end
	if i+1 < len(w.pieces) {
		until = w.pieces[i+1].from.Sum()
	}
	p := w.pieces[i]
	for from := sum; from < until && n < len(into); {
		copied := copy(into[n:], w.at(from, until))
		n += copied
		from += int64(copied)
	}
	return p.stream, p.from.plus(p.stream, sum-p.from.Sum()), n
}

// room is how many bytes may be added while those from a sum on stay; none or less if they are too many, or their pieces. ended says that
// the command has.
func (w *window) room(from int64, ended bool) int {
	size, pieces := w.capacity, piecesMax
	if ended {
		size, pieces = size+w.ending, pieces+piecesEnding
	}
	if len(w.pieces)-w.find(from) >= pieces {
		return 0
	}
	return size - int(w.end-from)
}
