package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
)

// Bounds of a start secret, in bytes.
const (
	StartSecretMin = 32
	StartSecretMax = 4096
)

// startDistinctMin is the least number of different bytes in a start secret. 32 random hexadecimal digits have fewer with a
// probability below one in a million.
const startDistinctMin = 8

// startIterations slows the guessing of a start secret that a person has made up. The authority's certificate is public, and each
// guess can be compared with it. A guess costs about a tenth of a second.
const startIterations = 600_000

// WeakSecretError says that a start secret can be guessed. It does not quote the secret.
type WeakSecretError struct{ Length, Distinct int }

func (e *WeakSecretError) Error() string {
	return fmt.Sprintf("the start secret has %d bytes, %d of them different; it needs %d to %d random bytes, "+
		"because every node of the cluster can be impersonated with it",
		e.Length, e.Distinct, StartSecretMin, StartSecretMax)
}

// checkStartSecret returns a *WeakSecretError for a secret that cannot be random bytes, and for one that is too long.
func checkStartSecret(secret []byte) error {
	different := map[byte]bool{}
	for _, b := range secret {
		different[b] = true
	}
	if len(secret) < StartSecretMin || len(secret) > StartSecretMax || len(different) < startDistinctMin {
		return &WeakSecretError{len(secret), len(different)}
	}
	return nil
}

// The validity of an authority that is made of a start secret: all nodes must make the same.
const (
	startYear    = 2020
	startEndYear = 2120
)

// startAuthority makes the certificate authority and the token that belong to a start secret. The
// same secret always gives the same, so that nodes that know it form a cluster without an exchange. It
// is as powerful as the authority's key, which every member has. The error is a *WeakSecretError.
func startAuthority(secret []byte) (*authority, token, error) {
	if err := checkStartSecret(secret); err != nil {
		return nil, token{}, err
	}
	stretched, err := pbkdf2.Key(sha256.New, string(secret), []byte("lockstep start secret 2"), startIterations, sha256.Size)
	if err != nil {
		return nil, token{}, fmt.Errorf("stretch the start secret: %w", err)
	}
	derive := func(purpose string, length int) []byte {
		key, err := hkdf.Expand(sha256.New, stretched, "lockstep start secret 2: "+purpose, length)
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
	return &authority{certificate: certificate, key: key}, t, nil
}

func beginning(year int) time.Time { return time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC) }

// StartToken returns the join token of a cluster whose first node was made with a start secret. The error is a
// *WeakSecretError.
func StartToken(secret []byte) (string, error) {
	_, t, err := startAuthority(secret)
	if err != nil {
		return "", err
	}
	return t.String(), nil
}
