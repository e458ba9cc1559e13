package noded

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"
)

// credentials are the certificates of one call (noded.md 1).
type credentials struct {
	server []byte // the certificate of all node daemons, in DER
	client tls.Certificate
}

func readCredentials(serverPEM, clientPEM string) (credentials, error) {
	data, err := os.ReadFile(serverPEM)
	if err != nil {
		return credentials{}, fmt.Errorf("read the certificate of the cluster: %w", err)
	}
	server, err := firstCertificate(data)
	if err != nil {
		return credentials{}, fmt.Errorf("use the certificate of the cluster: %s: %w", serverPEM, err)
	}
	path := clientPEM
	own, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		path, own, err = serverPEM, data, nil
	}
	if err != nil {
		return credentials{}, fmt.Errorf("read the client certificate: %w", err)
	}
	client, err := tls.X509KeyPair(own, own)
	if err != nil {
		return credentials{}, fmt.Errorf("use the client certificate: %s: %w", path, err)
	}
	client.Certificate = client.Certificate[:1] // a node daemon refuses some chains
	return credentials{server, client}, nil
}

// firstCertificate returns the first certificate of a file with a key and certificates, in DER.
func firstCertificate(data []byte) ([]byte, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return block.Bytes, nil
		}
	}
	return nil, errors.New("there is no certificate in it")
}

// dial connects and completes the TLS handshake within timeout. The error wraps context.DeadlineExceeded after it.
func (c credentials) dial(ctx context.Context, timeout time.Duration, network, address string) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(limited, network, address)
	if err == nil {
		conn := tls.Client(raw, c.config())
		if err = conn.HandshakeContext(limited); err == nil {
			return conn, nil
		}
		raw.Close()
	}
	if limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("no connection to %s within %v: %w", address, timeout, context.DeadlineExceeded)
	}
	return nil, fmt.Errorf("connect to %s: %w", address, err)
}

func (c credentials) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The certificate has no name and no address to verify. VerifyConnection compares the whole certificate.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, c.server) {
				return errors.New("the server has another certificate than the one of the cluster")
			}
			return nil
		},
		// Certificates would send none if the server does not name its issuer.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.client, nil },
	}
}
