package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"
)

const (
	caYears   = 20
	nodeYears = 10
	// clockSkew: the clocks of nodes may differ by that much.
	clockSkew = 24 * time.Hour
)

// Kinds of PEM blocks.
const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
	pemRequest     = "CERTIFICATE REQUEST"
)

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// authority is the cluster's certificate with its key.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority makes one, of which nobody else knows.
func newAuthority(cluster string, now time.Time) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(now, caYears)
	if err != nil {
		return nil, err
	}
	// The name has a space: no node's has.
	template.Subject = pkix.Name{CommonName: "lockstep cluster " + cluster}
	template.KeyUsage = x509.KeyUsageCertSign
	template.IsCA, template.MaxPathLenZero = true, true
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(raw)
	return &authority{certificate, key}, err
}

func newTemplate(now time.Time, years int) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-clockSkew), NotAfter: now.AddDate(years, 0, 0), BasicConstraintsValid: true}, nil
}

// issue makes a node's certificate, in DER.
func (a *authority) issue(name string, key *ecdsa.PublicKey, now time.Time) ([]byte, error) {
	template, err := newTemplate(now, nodeYears)
	if err != nil {
		return nil, err
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	template.Subject = pkix.Name{CommonName: name}
	template.DNSNames = []string{name}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
}

// admit issues the certificate that a request is for, in PEM. It takes nothing from
// the request but the key, and of that only the kind that nodes make.
func (a *authority) admit(name, request string, now time.Time) (string, error) {
	raw, err := onlyBlock([]byte(request), pemRequest)
	if err != nil {
		return "", err
	}
	parsed, err := x509.ParseCertificateRequest(raw)
	if err != nil {
		return "", err
	}
	if err := parsed.CheckSignature(); err != nil {
		return "", err
	}
	key, ok := parsed.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return "", errors.New("the key is not ECDSA P-256")
	}
	if parsed.Subject.CommonName != name {
		return "", fmt.Errorf("it is for %.80q, not %q", parsed.Subject.CommonName, name)
	}
	signed, err := a.issue(name, key, now)
	return string(encodeBlock(pemCertificate, signed)), err
}

// newRequest asks for a certificate for a key.
func newRequest(name string, key *ecdsa.PrivateKey) (string, error) {
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	return string(encodeBlock(pemRequest, raw)), err
}

// verifyNode returns the name in a node's certificate. It must be good for usage at
// that time; the zero time is now.
func verifyNode(certificate, ca *x509.Certificate, usage x509.ExtKeyUsage, at time.Time) (string, error) {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: at}
	if _, err := certificate.Verify(options); err != nil {
		return "", err
	}
	if certificate.IsCA {
		return "", errors.New("it is a certificate authority's, not a node's")
	}
	name := certificate.Subject.CommonName
	return name, CheckName(name)
}

func encodeBlock(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	return encodeBlock(pemKey, raw), err
}

func onlyBlock(data []byte, kind string) ([]byte, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("there is no PEM block %q", kind)
	}
	return block.Bytes, nil
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	raw, err := onlyBlock(data, pemCertificate)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	raw, err := onlyBlock(data, pemKey)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(raw)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not ECDSA")
	}
	return key, nil
}

// parseAuthority takes a certificate and a key that belong together.
func parseAuthority(certificate, key []byte) (*authority, error) {
	parsed, err := parseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("certificate of the cluster: %w", err)
	}
	private, err := parseKey(key)
	if err != nil {
		return nil, fmt.Errorf("key of the cluster: %w", err)
	}
	if !parsed.IsCA || !private.PublicKey.Equal(parsed.PublicKey) {
		return nil, errors.New("certificate and key of the cluster do not belong together")
	}
	return &authority{parsed, private}, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	certificate, err := parseCertificate(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return certificate, nil
}
