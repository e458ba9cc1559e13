package budget

// Bounds of memory in each class, in bytes.
const (
	BytesMax       = 256 << 20 // of all clients
	ClientBytesMax = 64 << 20  // of one client, unless it is a single request or answer
	// BytesOwn is what each client may have whatever the others have.
	BytesOwn = 1 << 20
)

// Bytes bounds how much memory requests that are being received and answers that are being sent have, in all and for each client.
type Bytes struct {
	total, each, own int
	classes          [classes]bytesClass
	sequence         uint64
}

type bytesClass struct {
	used     int
	accounts map[Client]*account
}

// account has what one client uses: the bytes of all its shares, and the shares that are still being received.
type account struct {
	used      int
	receiving map[*Share]struct{}
}

// Share is the memory that one request counts for. Its fields belong to the Bytes that made it.
type Share struct {
	client    Client
	used      int
	began     uint64 // orders shares by the begin of their receiving
	receiving bool
}

// Client is whom the share counts for.
func (s *Share) Client() Client { return s.client }

// Used is how many bytes of memory the share has taken.
func (s *Share) Used() int { return s.used }

// NewBytes returns a Bytes with the limits of this package (the constants above).
func NewBytes() *Bytes { return NewBytesOf(BytesMax, ClientBytesMax, BytesOwn) }

// NewBytesOf returns a Bytes with other limits, in bytes: total for all clients, each for one client, and own for what one client may
// have even when the total is used up.
func NewBytesOf(total, each, own int) *Bytes {
	b := &Bytes{total: total, each: each, own: own}
	for i := range b.classes {
		b.classes[i].accounts = map[Client]*account{}
	}
	return b
}

// Share returns an empty share whose bytes will count for the client c.
func (b *Bytes) Share(c Client) *Share { return &Share{client: c.Key()} }

// Receive says that a request is being received into the share: it may lose its memory to another one until Keep.
func (b *Bytes) Receive(s *Share) {
	b.sequence++
	s.began, s.receiving = b.sequence, true
	if a := b.account(s); a != nil {
		a.receiving[s] = struct{}{}
	}
}

// Keep says that the request is complete: it keeps its memory until it has been answered.
func (b *Bytes) Keep(s *Share) {
	s.receiving = false
	if a := b.account(s); a != nil {
		delete(a.receiving, s)
	}
}

func (b *Bytes) account(s *Share) *account { return b.classes[s.client.Class].accounts[s.client] }

// Grow changes the size of a share. evicted are shares of requests that are still received and must end, for their memory is taken: of
// the client itself if it has more than it may, and of the client that has most if there is no more in all; the oldest first, since an
// honest client sends a request at once. ok is false if there is not enough even so; the share is then as before.
func (b *Bytes) Grow(s *Share, size int) (evicted []*Share, ok bool) {
	class := &b.classes[s.client.Class]
	need := size - s.used
	if need <= 0 {
		b.set(s, size)
		return nil, true
	}
	others := func() int { // what the client has beside this share
		if a := class.accounts[s.client]; a != nil {
			return a.used - s.used
		}
		return 0
	}
	for others() > 0 && others()+size > b.each {
		v := oldest(class.accounts[s.client], s)
		if v == nil {
			return evicted, false
		}
		evicted = append(evicted, v)
		b.set(v, 0)
	}
	for class.used+need > b.total && others()+size > b.own {
		v := class.largest(others()+size, s)
		if v == nil {
			return evicted, false
		}
		evicted = append(evicted, v)
		b.set(v, 0)
	}
	b.set(s, size)
	return evicted, true
}

// largest is the oldest request that is still received of the client that has most, and at least as much as the one that needs
// memory.
func (c *bytesClass) largest(least int, but *Share) *Share {
	var found *Share
	most := least
	for key, a := range c.accounts {
		if a.used < most && key != but.client {
			continue
		}
		if v := oldest(a, but); v != nil && (found == nil || a.used > most || v.began < found.began) {
			found, most = v, max(a.used, most)
		}
	}
	return found
}

func oldest(a *account, but *Share) *Share {
	var found *Share
	for s := range a.receiving {
		if s != but && (found == nil || s.began < found.began) {
			found = s
		}
	}
	return found
}

// Release gives all bytes of a share back. The share no longer counts as receiving.
func (b *Bytes) Release(s *Share) {
	s.receiving = false
	b.set(s, 0)
}

// Assign makes a share count for another client: its user has logged in.
func (b *Bytes) Assign(s *Share, c Client) {
	if s.client == c.Key() {
		return
	}
	used := s.used
	b.set(s, 0)
	s.client = c.Key()
	b.set(s, used)
}

// set makes a share count for size bytes from now on, in the client's account and in its class; 0 ends it.
func (b *Bytes) set(s *Share, size int) {
	class := &b.classes[s.client.Class]
	a := class.accounts[s.client]
	if a == nil {
		if size == 0 {
			s.used = 0
			return
		}
		a = &account{receiving: map[*Share]struct{}{}}
		class.accounts[s.client] = a
	}
	class.used += size - s.used
	a.used += size - s.used
	s.used = size
	if s.receiving && size > 0 {
		a.receiving[s] = struct{}{}
	} else {
		delete(a.receiving, s)
	}
	if a.used == 0 {
		delete(class.accounts, s.client)
	}
}

// Len is how much memory is used, in bytes.
func (b *Bytes) Len() (total int) {
	for i := range b.classes {
		total += b.classes[i].used
	}
	return total
}
