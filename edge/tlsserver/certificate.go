// Package tlsserver is what the HTTPS servers of the daemon share: the remote API (edge/rapi)
// with the console, MonD (edge/mond) and the port of other nodes (edge/peer). It makes keys and
// certificates, checks the host that a request names, writes long answers under a deadline, and
// passes the errors of net/http to the log. It owns no state.
package tlsserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// Kinds of PEM blocks.
const (
	Certificate        = "CERTIFICATE"
	PrivateKey         = "PRIVATE KEY"
	CertificateRequest = "CERTIFICATE REQUEST"
)

// serialBits is the size of a certificate's random serial number.
const serialBits = 120

// NewKey makes an ECDSA key on the curve P-256.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// NewTemplate returns what all certificates begin with: a random serial number and the time of validity. It is valid from skew before
// now, for clients whose clock is behind, until so many years after now.
func NewTemplate(now time.Time, skew time.Duration, years int) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             now.Add(-skew),
		NotAfter:              now.AddDate(years, 0, 0),
		BasicConstraintsValid: true,
	}, nil
}

// EncodeKey returns a key as a PEM block.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return EncodeBlock(PrivateKey, der), err
}

// EncodeBlock returns a PEM block of a kind.
func EncodeBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// DecodeBlock returns the content of the first PEM block, which must be of that kind.
func DecodeBlock(data []byte, kind string) ([]byte, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("there is no PEM block %q", kind)
	}
	return block.Bytes, nil
}
