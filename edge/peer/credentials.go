package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Protocol is the purpose of a connection. The TLS handshake selects it (ALPN), so that one
// port serves all protocols.
type Protocol string

const (
	// ProtocolRaft is for the consensus log's own messages.
	ProtocolRaft Protocol = "lockstep-raft"
	// ProtocolLuxi is for clients' requests that another node forwards.
	ProtocolLuxi Protocol = "lockstep-luxi"
	// ProtocolOutput is for readers of the output of jobs that another node forwards.
	ProtocolOutput Protocol = "lockstep-output"
	// ProtocolNode is for requests between nodes, see Client.
	ProtocolNode Protocol = "lockstep-node"
	// ProtocolJoin is for a node with a join token and without a certificate.
	ProtocolJoin Protocol = "lockstep-join"
)

// handshakeTimeout is how long the other side has to connect and to complete the handshake.
const handshakeTimeout = 10 * time.Second

// Credentials are the certificate and key by which a node proves that it belongs to its cluster.
// They are immutable.
type Credentials struct {
	name    string
	dataDir string
	ca      *authority
	pair    tls.Certificate
}

// LoadCredentials reads the credentials of the node with this data directory. The error wraps
// fs.ErrNotExist if the node belongs to no cluster.
func LoadCredentials(dataDir string) (*Credentials, error) {
	identity, err := LoadIdentity(dataDir)
	if err != nil {
		return nil, err
	}
	broken := func(err error) (*Credentials, error) {
		return nil, fmt.Errorf("the certificates in %s cannot be used: %w; "+
			"restore them from a backup, or move the directory aside and join again", pathOf(dataDir, ""), err)
	}
	certificate, err := os.ReadFile(pathOf(dataDir, caName))
	if err != nil {
		return broken(err)
	}
	key, err := os.ReadFile(pathOf(dataDir, caKeyName))
	if err != nil {
		return broken(err)
	}
	ca, err := parseAuthority(certificate, key)
	if err != nil {
		return broken(err)
	}
	pair, err := tls.LoadX509KeyPair(pathOf(dataDir, certificateName), pathOf(dataDir, certificateKeyName))
	if err != nil {
		return broken(err)
	}
	name, err := verifyNode(pair.Leaf, ca.certificate, x509.ExtKeyUsageServerAuth, time.Time{})
	if err != nil {
		return broken(err)
	}
	if name != identity.Name {
		return broken(fmt.Errorf("the certificate is of %s, the node is %s", name, identity.Name))
	}
	ca.incarnation = incarnationOf(pair.Leaf)
	// A joining node looks for the authority's certificate, whose hash is in its token, in this
	// chain.
	pair.Certificate = append(pair.Certificate[:1:1], ca.certificate.Raw)
	return &Credentials{name: name, dataDir: dataDir, ca: ca, pair: pair}, nil
}

// Name is the name of this node.
func (c *Credentials) Name() string { return c.name }

// Dial connects to another node for any protocol but ProtocolJoin. PeerName tells which node it
// is. If the other node refuses this one because it is no member, only the first read returns an
// error. The context bounds the connecting, not the connection.
func (c *Credentials) Dial(ctx context.Context, address string, protocol Protocol) (net.Conn, error) {
	return dialTLS(ctx, address, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{string(protocol)}, Certificates: []tls.Certificate{c.pair},
		InsecureSkipVerify: true, // verified below: nodes are known by the cluster's certificate, not by host names
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := c.verify(state, x509.ExtKeyUsageServerAuth)
			return err
		},
	})
}

// verify returns the name of the node at the other end. The error is an *OtherIncarnationError for a node of a cluster from before a
// recovery.
func (c *Credentials) verify(state tls.ConnectionState, usage x509.ExtKeyUsage) (string, error) {
	if len(state.PeerCertificates) == 0 {
		return "", errors.New("it shows no certificate")
	}
	shown := state.PeerCertificates[0]
	name, err := verifyNode(shown, c.ca.certificate, usage, time.Time{})
	if err == nil && incarnationOf(shown) != c.ca.incarnation {
		err = &OtherIncarnationError{Node: name}
	}
	return name, err
}

// OtherIncarnationError says that a node belongs to another cluster that was made with the same start secret. The logs of two
// clusters must not be mixed, so the nodes have no connections.
type OtherIncarnationError struct{ Node string }

func (e *OtherIncarnationError) Error() string {
	return fmt.Sprintf("node %s is of another cluster that was made with the same start secret; "+
		"one of the two nodes must leave its cluster and join the other's", e.Node)
}

// serverConfig is the TLS configuration of the port. The client names one protocol, which selects
// the rules. Session tickets are disabled, so that every connection shows its certificate.
func (c *Credentials) serverConfig(admits func(protocol Protocol, name string) bool) *tls.Config {
	base := func(protocol Protocol) *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.pair},
			NextProtos: []string{string(protocol)}, SessionTicketsDisabled: true}
	}
	configs := map[Protocol]*tls.Config{ProtocolJoin: base(ProtocolJoin)}
	for _, protocol := range []Protocol{ProtocolRaft, ProtocolLuxi, ProtocolOutput, ProtocolNode} {
		config := base(protocol)
		config.ClientAuth = tls.RequireAnyClientCert // verified below
		config.VerifyConnection = func(state tls.ConnectionState) error {
			name, err := c.verify(state, x509.ExtKeyUsageClientAuth)
			if err == nil && !admits(protocol, name) {
				err = fmt.Errorf("node %s is no member", name)
			}
			return err
		}
		configs[protocol] = config
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) == 1 {
			if config, ok := configs[Protocol(hello.SupportedProtos[0])]; ok {
				return config, nil
			}
		}
		return nil, errors.New("the client asks for no protocol of nodes")
	}}
}

func dialTLS(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to the node at %s: %w", address, err)
	}
	conn := tls.Client(raw, config)
	err = conn.HandshakeContext(ctx)
	if err == nil && conn.ConnectionState().NegotiatedProtocol != config.NextProtos[0] {
		err = errors.New("it is no lockstep node")
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("connect to the node at %s: %w", address, err)
	}
	return conn, nil
}

// PeerName returns the name of the node at the other end of a connection of Dial or of a
// Listener, from its certificate; "" if it has shown none.
func PeerName(c net.Conn) string {
	secured, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return ""
	}
	shown := secured.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return ""
	}
	return shown[0].Subject.CommonName
}
