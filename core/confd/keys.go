package confd

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the protocol prescribes SHA-1 (confd.md 2)
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
)

// KeySize is the length of a generated key: 40 hexadecimal digits and a newline, which is a part of the key (confd.md 1).
const KeySize = 41

// keyMax is the length of the longest key that is accepted, in bytes.
const keyMax = 4096

// Keys are the secrets with which queries to ConfD are signed, as they are valid at one time. They are immutable. The zero value and nil
// have no key.
type Keys struct{ valid [][]byte }

// NewKeys returns keys. Empty keys and repetitions are left out.
func NewKeys(keys ...[]byte) *Keys {
	k := &Keys{}
	for _, key := range keys {
		if len(key) > 0 && !slices.ContainsFunc(k.valid, func(other []byte) bool { return string(other) == string(key) }) {
			k.valid = append(k.valid, key)
		}
	}
	return k
}

// IsEmpty reports whether there is no key.
func (k *Keys) IsEmpty() bool { return k == nil || len(k.valid) == 0 }

// Len returns the number of keys.
func (k *Keys) Len() int {
	if k == nil {
		return 0
	}
	return len(k.valid)
}

// GenerateKey makes a key from random octets.
func GenerateKey(random func(count int) []byte) []byte {
	return append(hex.AppendEncode(nil, random((KeySize-1)/2)), '\n')
}

// CheckKey returns an error unless the content of a file can be a key. Every file that is neither empty nor very long can.
func CheckKey(content []byte) error {
	if len(content) == 0 || len(content) > keyMax {
		return fmt.Errorf("it has %d bytes; a key has between 1 and %d, usually %d", len(content), keyMax, KeySize)
	}
	return nil
}

// digest is the length of a signature before its encoding, in bytes.
const digest = sha1.Size

// signer computes signatures with one key. It belongs to one goroutine.
type signer struct {
	mac hash.Hash
	sum [digest]byte
}

func newSigner(key []byte) *signer { return &signer{mac: hmac.New(sha1.New, key)} }

// sign returns the signature of a message with its salt. It is valid until the next call.
func (s *signer) sign(salt, msg []byte) []byte {
	s.mac.Reset()
	_, _ = s.mac.Write(salt) // never fails
	_, _ = s.mac.Write(msg)
	return s.mac.Sum(s.sum[:0])
}

// matches reports whether a signature is that of a message, in constant time.
func (s *signer) matches(salt, msg []byte, signature [digest]byte) bool {
	return hmac.Equal(s.sign(salt, msg), signature[:])
}
