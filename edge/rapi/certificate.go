package rapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"lockstep/edge/tlsserver"
	"lockstep/persistence"
)

// Validity of a certificate that EnsureCertificate makes.
const (
	certificateYears = 10
	certificateSkew  = time.Hour // a client's clock may be behind by that much
)

// TLSConfig reads a certificate and its key, both PEM files.
func TLSConfig(certificate, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("load the certificate %s and its key %s: %w", certificate, key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// Fingerprint is the SHA-256 of a configuration's certificate in hexadecimal, which users
// compare.
func Fingerprint(c *tls.Config) string {
	sum := sha256.Sum256(c.Certificates[0].Certificate[0])
	return hex.EncodeToString(sum[:])
}

// EnsureCertificate creates a self-signed certificate and its key, unless a valid pair exists.
// made reports whether it did. Other users can never read the key.
func EnsureCertificate(certificate, key string, hosts []string, now time.Time) (made bool, err error) {
	switch usable, err := isUsable(certificate, key, now); {
	case err != nil:
		return false, err
	case usable:
		return false, nil
	}
	private, err := tlsserver.NewKey()
	if err != nil {
		return false, err
	}
	template, err := tlsserver.NewTemplate(now, certificateSkew, certificateYears)
	if err != nil {
		return false, err
	}
	template.Subject = pkix.Name{CommonName: hosts[0], Organization: []string{"lockstep remote API"}}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
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
	encoded, err := tlsserver.EncodeKey(private)
	if err != nil {
		return false, err
	}
	for _, path := range []string{key, certificate} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return false, err
		}
	}
	if err := persistence.ReplaceFile(key, encoded, 0o600); err != nil {
		return false, err
	}
	return true, persistence.ReplaceFile(certificate, tlsserver.EncodeBlock(tlsserver.Certificate, signed), 0o644)
}

// isUsable reports whether certificate and key exist, match and are valid now. After a crash
// between the two writes they do not match. A file that cannot be read is an error, which the
// operator must correct.
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
		return false, nil //nolint:nilerr // the caller replaces a pair that lockstep made itself
	}
	return now.Before(pair.Leaf.NotAfter), nil
}
