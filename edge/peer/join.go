package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

// JoinOptions are those of Join.
type JoinOptions struct {
	Name    string // of this node, see CheckName; no member may have it
	Address string // by which the others will reach this node, see CheckAddress
	Voting  bool   // else the node is a copy without a say
	From    string // address of the member at which Token was made
	Token   string
	// DiscardQueue: if this node has jobs, its queue is moved aside.
	DiscardQueue bool
	Now          time.Time
}

// JoinTimeout bounds the conversation of Join.
const JoinTimeout = 30 * time.Second

// joinRequest and joinAnswer are those of POST /v1/join.
type joinRequest struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Secret  []byte `json:"secret"`
	Request string `json:"request"` // for a certificate, PEM
}

type joinAnswer struct {
	Certificate string   `json:"certificate"` // of the new node
	CA          string   `json:"ca_certificate"`
	CAKey       string   `json:"ca_key"`
	Peers       []string `json:"peers"`
}

// WrongClusterError says that the node asked is not of the cluster that the token is for, or
// that somebody in between pretends to be it.
type WrongClusterError struct{ Address string }

func (e *WrongClusterError) Error() string {
	return fmt.Sprintf("the node at %s is not of the cluster that the join token is for; check the address, and where the token comes from", e.Address)
}

// Join makes this node one of a cluster, as far as identity and certificates go; its
// daemon, once started, asks to be a member. The daemon must not run, and its queue's
// lock is the caller's. If Join fails, or is cut off, the node belongs to no cluster.
// Errors are those of Init, and *TokenError, *QueueNotEmptyError, *WrongClusterError and
// *RefusedError.
func Join(ctx context.Context, dataDir string, o JoinOptions) error {
	identity := &Identity{Name: o.Name, UUID: uuid.NewString(), Address: o.Address, Voting: o.Voting}
	if err := errors.Join(identity.validate(), CheckAddress(o.From)); err != nil {
		return err
	}
	if o.From == o.Address {
		return fmt.Errorf("%s is the address of this node; join at that of a member", o.From)
	}
	t, err := parseToken(o.Token)
	if err != nil {
		return err
	}
	if err := errors.Join(CheckDataDir(dataDir), requireNoIdentity(dataDir)); err != nil {
		return err
	}
	jobs := requireNoJobs(dataDir)
	var old *QueueNotEmptyError
	if jobs != nil && (!errors.As(jobs, &old) || !o.DiscardQueue) {
		return jobs
	}
	if err := makeDirectory(dataDir); err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	answer, err := askToJoin(ctx, o, t, key)
	if err != nil {
		return err
	}
	ca, err := answer.verify(o, t, key)
	if err != nil {
		return fmt.Errorf("the answer of the node at %s: %w", o.From, err)
	}
	for _, address := range append([]string{o.From}, answer.Peers...) {
		if address != o.Address && !slices.Contains(identity.Peers, address) {
			identity.Peers = append(identity.Peers, address)
		}
	}
	files, err := nodeFiles(ca, key, []byte(answer.Certificate), []storedToken{}, identity)
	if err != nil {
		return err
	}
	if old != nil {
		if err := moveQueueAside(dataDir, o.Now); err != nil {
			return err
		}
	}
	return replaceFiles(dataDir, files)
}

// nodeFiles are a node's files in the order in which they must be written: with the
// last one the node belongs to the cluster, and needs all others.
func nodeFiles(ca *authority, key *ecdsa.PrivateKey, certificate []byte, tokens []storedToken, identity *Identity) ([]nodeFile, error) {
	if err := identity.validate(); err != nil {
		return nil, err
	}
	caKey, err := encodeKey(ca.key)
	if err != nil {
		return nil, err
	}
	nodeKey, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	tokenFile, err := tokensFile(tokens)
	if err != nil {
		return nil, err
	}
	last, err := identity.encode()
	if err != nil {
		return nil, err
	}
	return []nodeFile{
		{caName, encodeBlock(pemCertificate, ca.certificate.Raw), publicMode},
		{caKeyName, caKey, secretMode},
		{certificateName, certificate, publicMode},
		{certificateKeyName, nodeKey, secretMode},
		tokenFile,
		last,
	}, nil
}

// askToJoin sends the token's secret to a node that has proved to be of the token's
// cluster.
func askToJoin(ctx context.Context, o JoinOptions, t token, key *ecdsa.PrivateKey) (*joinAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, JoinTimeout)
	defer cancel()
	request, err := newRequest(o.Name, key)
	if err != nil {
		return nil, err
	}
	client := newHTTPClient(func(ctx context.Context, address string) (net.Conn, error) {
		return dialTLS(ctx, address, joinConfig(address, t))
	})
	answer := &joinAnswer{}
	_, err = exchange(ctx, client, http.MethodPost, o.From, joinPath, joinRequest{o.Name, o.Address, t.secret[:], request}, answer)
	return answer, err
}

// joinConfig trusts whoever has a certificate that the token's authority has signed,
// and shows that authority's with it.
func joinConfig(address string, t token) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{string(ProtocolJoin)},
		InsecureSkipVerify: true, // which is done below, against the token and nothing else
		VerifyConnection: func(state tls.ConnectionState) error {
			for _, shown := range state.PeerCertificates {
				if sha256.Sum256(shown.Raw) == t.ca {
					_, err := verifyNode(state.PeerCertificates[0], shown, x509.ExtKeyUsageServerAuth, time.Time{})
					return err
				}
			}
			return &WrongClusterError{Address: address}
		},
	}
}

// verify takes nothing on trust that it need not: a node that starts with files that do
// not fit together would not be able to say why.
func (a *joinAnswer) verify(o JoinOptions, t token, key *ecdsa.PrivateKey) (*authority, error) {
	ca, err := parseAuthority([]byte(a.CA), []byte(a.CAKey))
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(ca.certificate.Raw) != t.ca {
		return nil, &WrongClusterError{Address: o.From}
	}
	certificate, err := parseCertificate([]byte(a.Certificate))
	if err != nil {
		return nil, err
	}
	name, err := verifyNode(certificate, ca.certificate, x509.ExtKeyUsageClientAuth, o.Now)
	if err != nil {
		return nil, err
	}
	if name != o.Name || !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, errors.New("the certificate is not the one that was asked for")
	}
	return ca, nil
}
