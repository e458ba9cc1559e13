package rapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"lockstep/persistence"
)

// certificateYears is how long a certificate of our own making is good for.
const certificateYears = 10

// TLSConfig is for a certificate and its key, both as PEM files.
func TLSConfig(certificate, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s and its key %s: %w", certificate, key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// Fingerprint is the SHA-256 of a configuration's certificate, for people to
// compare.
func Fingerprint(c *tls.Config) string {
	sum := sha256.Sum256(c.Certificates[0].Certificate[0])
	return hex.EncodeToString(sum[:])
}

// EnsureCertificate creates a self-signed certificate and its key, unless both exist and stay
// valid for some time. made says whether it did. The key is never readable for other users.
func EnsureCertificate(certificate, key string, hosts []string, now time.Time) (made bool, err error) {
	switch usable, err := isUsable(certificate, key, now); {
	case err != nil:
		return false, err
	case usable:
		return false, nil
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return false, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: hosts[0], Organization: []string{"lockstep remote API"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(certificateYears, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return false, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return false, err
	}
	for _, path := range []string{key, certificate} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return false, err
		}
	}
	if err := persistence.ReplaceFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600); err != nil {
		return false, err
	}
	return true, persistence.ReplaceFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o644)
}

// isUsable reports whether certificate and key exist, match and are valid now. They do not
// match after a crash between the two writes. A file that cannot be read is an error, which
// the operator must correct.
func isUsable(certificate, key string, now time.Time) (bool, error) {
	for _, path := range []string{certificate, key} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return false, nil //nolint:nilerr // it is of our own making, and is made anew
	}
	return now.Before(pair.Leaf.NotAfter), nil
}
