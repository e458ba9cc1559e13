package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	arith "math/bits"
)

// Hash identifies the content of a configuration. Configurations with equal objects and equal top-level fields have equal
// hashes, whatever changes led to them. Its cost after a change is that of the changed objects: it is a sum modulo 2^256 of
// the hashes of the objects and of the top-level fields. It detects accidents, it does not authenticate.
type Hash [sha256.Size]byte

// String returns 64 lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns 64 lower-case hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hexadecimal digits.
func (h *Hash) UnmarshalText(digits []byte) error {
	raw, err := hex.AppendDecode(nil, digits)
	if err == nil && len(raw) != len(h) {
		err = fmt.Errorf("a hash of %d bytes in place of %d", len(raw), len(h))
	}
	if err == nil {
		copy(h[:], raw)
	}
	return err
}

// Hash returns the hash of the configuration.
func (c *Config) Hash() Hash {
	head := AppendTime(fmt.Appendf(nil, "head %d ", c.Version), c.CTime)
	head = AppendTime(append(head, ' '), c.MTime)
	sum := c.objects
	sum.add(sha256.Sum256(fmt.Appendf(head, " %d", c.Serial)))
	var h Hash
	for i, limb := range sum {
		binary.LittleEndian.PutUint64(h[8*i:], limb)
	}
	return h
}

// hashSum is a number modulo 2^256, in limbs from the least significant one.
type hashSum [4]uint64

func limbsOf(h [sha256.Size]byte) (limbs hashSum) {
	for i := range limbs {
		limbs[i] = binary.LittleEndian.Uint64(h[8*i:])
	}
	return limbs
}

func (s *hashSum) add(h [sha256.Size]byte) {
	var carry uint64
	for i, limb := range limbsOf(h) {
		s[i], carry = arith.Add64(s[i], limb, carry)
	}
}

func (s *hashSum) subtract(h [sha256.Size]byte) {
	var borrow uint64
	for i, limb := range limbsOf(h) {
		s[i], borrow = arith.Sub64(s[i], limb, borrow)
	}
}

// replace updates the sum for an object that changes. old is nil for an added object, now for a deleted one.
func (k *Kind[T]) replace(s *hashSum, key string, old, now *Object[T]) {
	if old == now {
		return
	}
	if old != nil {
		s.subtract(k.hash(key, old))
	}
	if now != nil {
		s.add(k.hash(key, now))
	}
}

// hash returns the hash of an object. Kind and key end in a byte that does not occur in UTF-8 text.
func (k *Kind[T]) hash(key string, o *Object[T]) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write([]byte(k.Name + separator + key + separator))
	h.Write(o.encoding)
	h.Sum(sum[:0])
	return sum
}
