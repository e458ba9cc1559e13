package nodedtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keyBits is the size of the keys of Ganeti's certificates.
const keyBits = 2048

// Identity is a certificate with its key.
type Identity struct {
	PEM         []byte // key and certificate, as in server.pem and client.pem
	Certificate tls.Certificate
	key         *rsa.PrivateKey
	subject     pkix.RDNSequence
}

// NewIdentity makes a certificate as Ganeti does: X.509 version 1, without alternative names. Without a signer it is
// self-signed.
func NewIdentity(t testing.TB, commonName string, signer *Identity) *Identity {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	require.NoError(t, err)
	i := &Identity{key: key, subject: pkix.Name{CommonName: commonName}.ToRDNSequence()}
	if signer == nil {
		signer = i
	}
	der := signVersion1(t, i, signer)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	i.PEM = append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	i.Certificate, err = tls.X509KeyPair(i.PEM, i.PEM)
	require.NoError(t, err)
	require.Equal(t, 1, i.Certificate.Leaf.Version)
	return i
}

// signVersion1 returns a certificate in DER without version and extensions, which crypto/x509 cannot make.
func signVersion1(t testing.TB, of, signer *Identity) []byte {
	rsaWithSHA256 := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}
	algorithm := pkix.AlgorithmIdentifier{Algorithm: rsaWithSHA256, Parameters: asn1.NullRawValue}
	public, err := x509.MarshalPKIXPublicKey(&of.key.PublicKey)
	require.NoError(t, err)
	type validity struct{ From, To time.Time }
	now := time.Now().UTC()
	content, err := asn1.Marshal(struct {
		Serial    *big.Int
		Algorithm pkix.AlgorithmIdentifier
		Issuer    pkix.RDNSequence
		Validity  validity
		Subject   pkix.RDNSequence
		Key       asn1.RawValue
	}{
		big.NewInt(1),
		algorithm,
		signer.subject,
		validity{now.Add(-time.Hour), now.Add(5 * 365 * 24 * time.Hour)},
		of.subject,
		asn1.RawValue{FullBytes: public},
	})
	require.NoError(t, err)
	digest := sha256.Sum256(content)
	signature, err := rsa.SignPKCS1v15(rand.Reader, signer.key, crypto.SHA256, digest[:])
	require.NoError(t, err)
	der, err := asn1.Marshal(struct {
		Content   asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: content}, algorithm, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}})
	require.NoError(t, err)
	return der
}

// Digest is the digest of the certificate in the form of ssconf master_candidates_certs.
func (i *Identity) Digest() string { return digestOf(i.Certificate.Certificate[0]) }

func digestOf(der []byte) string {
	sum := sha1.Sum(der)
	var parts []string
	for _, b := range sum {
		parts = append(parts, strings.ToUpper(hex.EncodeToString([]byte{b})))
	}
	return strings.Join(parts, ":")
}

// Write writes the file of an identity into a directory and returns its path.
func (i *Identity) Write(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, i.PEM, 0o440))
	return path
}
