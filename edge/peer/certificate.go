package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"time"

	"lockstep/edge/tlsserver"
)

const (
	caYears   = 20
	nodeYears = 10
	// clockSkew is how far the clocks of two nodes may differ.
	clockSkew = 24 * time.Hour
)

// authority is the cluster's certificate authority: its certificate and key.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// incarnation is in each node's certificate. It tells clusters apart that were made with the same start secret and so have the
	// same authority. "" if the authority is random.
	incarnation string
}

// newAuthority makes the certificate authority of a new cluster.
func newAuthority(cluster string, now time.Time) (*authority, error) {
	key, err := tlsserver.NewKey()
	if err != nil {
		return nil, err
	}
	template, err := tlsserver.NewTemplate(now, clockSkew, caYears)
	if err != nil {
		return nil, err
	}
	// The common name contains a space, which no name of a node does.
	template.Subject = pkix.Name{CommonName: "lockstep cluster " + cluster}
	template.KeyUsage = x509.KeyUsageCertSign
	template.IsCA, template.MaxPathLenZero = true, true
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(raw)
	return &authority{certificate: certificate, key: key}, err
}

// issue makes a node's certificate, in DER. It does not outlast the authority's own.
func (a *authority) issue(name string, key *ecdsa.PublicKey, now time.Time) ([]byte, error) {
	template, err := tlsserver.NewTemplate(now, clockSkew, nodeYears)
	if err != nil {
		return nil, err
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	template.Subject = pkix.Name{CommonName: name}
	if a.incarnation != "" {
		template.Subject.Organization = []string{a.incarnation}
	}
	template.DNSNames = []string{name}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
}

// admit issues a certificate for the key of a certificate request, in PEM. It ignores the rest of
// the request, and refuses any key but ECDSA P-256, the kind that nodes make.
func (a *authority) admit(name, request string, now time.Time) (string, error) {
	raw, err := tlsserver.DecodeBlock([]byte(request), tlsserver.CertificateRequest)
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
	return string(tlsserver.EncodeBlock(tlsserver.Certificate, signed)), err
}

// newRequest makes a certificate request for a key, in PEM.
func newRequest(name string, key *ecdsa.PrivateKey) (string, error) {
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	return string(tlsserver.EncodeBlock(tlsserver.CertificateRequest, raw)), err
}

// verifyNode checks a node's certificate for a usage at the moment at, where the zero time means now, and returns the name in it.
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

// incarnationOf returns the incarnation of the cluster that a node's certificate is for; "" if the certificate names none.
func incarnationOf(certificate *x509.Certificate) string {
	if len(certificate.Subject.Organization) != 1 {
		return ""
	}
	return certificate.Subject.Organization[0]
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	raw, err := tlsserver.DecodeBlock(data, tlsserver.Certificate)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	raw, err := tlsserver.DecodeBlock(data, tlsserver.PrivateKey)
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

// parseAuthority reads the authority's certificate and key, both PEM, and checks that they match.
func parseAuthority(certificate, key []byte) (*authority, error) {
	parsed, err := parseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("use the certificate of the cluster: %w", err)
	}
	private, err := parseKey(key)
	if err != nil {
		return nil, fmt.Errorf("use the key of the cluster: %w", err)
	}
	if !parsed.IsCA || !private.PublicKey.Equal(parsed.PublicKey) {
		return nil, errors.New("certificate and key of the cluster do not belong together")
	}
	return &authority{certificate: parsed, key: private}, nil
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
