package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
)

// StartSecretMin is the least length of a start secret, in bytes.
const StartSecretMin = 32

// ShortSecretError says that a start secret is short enough to be guessed.
type ShortSecretError struct{ Length int }

func (e *ShortSecretError) Error() string {
	return fmt.Sprintf("the start secret has %d bytes, and needs %d random ones: every node of the cluster can be impersonated with it", e.Length, StartSecretMin)
}

// The validity of an authority that is made of a start secret: all nodes must make the same.
const (
	startYear    = 2020
	startEndYear = 2120
)

// startAuthority makes the certificate authority and the token that belong to a start secret. The
// same secret always gives the same, so that nodes that know it form a cluster without an exchange. It
// is as powerful as the authority's key, which every member has.
func startAuthority(secret []byte) (*authority, token, error) {
	if len(secret) < StartSecretMin {
		return nil, token{}, &ShortSecretError{len(secret)}
	}
	derive := func(purpose string, length int) []byte {
		key, err := hkdf.Key(sha256.New, secret, nil, "lockstep start secret 1: "+purpose, length)
		if err != nil {
			panic(err) // the lengths are constants
		}
		return key
	}
	const keyLen, idLen = 32, 16
	// One seed in 2^32 is no key of the curve.
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), derive("key", keyLen))
	if err != nil {
		return nil, token{}, fmt.Errorf("make a key of the start secret: %w; choose another secret", err)
	}
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(derive("serial", idLen)), NotBefore: beginning(startYear), NotAfter: beginning(startEndYear),
		Subject:  pkix.Name{CommonName: "lockstep cluster " + hex.EncodeToString(derive("name", idLen))},
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, MaxPathLenZero: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(nil, template, template, key.Public(), key) // without randomness
	if err != nil {
		return nil, token{}, err
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, token{}, err
	}
	t := token{ca: sha256.Sum256(raw)}
	copy(t.secret[:], derive("token", secretLen))
	return &authority{certificate, key}, t, nil
}

func beginning(year int) time.Time { return time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC) }

// StartToken returns the join token of a cluster whose first node was made with a start secret. The error is a
// *ShortSecretError.
func StartToken(secret []byte) (string, error) {
	_, t, err := startAuthority(secret)
	if err != nil {
		return "", err
	}
	return t.String(), nil
}
