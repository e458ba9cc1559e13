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

	"lockstep/core/paths"
	"lockstep/edge/tlsserver"
)

// JoinOptions are the options of Join.
type JoinOptions struct {
	Name    string // of this node, see CheckName; no member may have it
	Address string // by which the others will reach this node, see CheckAddress
	Voting  bool   // else the node keeps a copy and has no vote
	From    string // address of the member at which Token was made
	Token   string
	// DiscardQueue moves the queue of this node aside if it holds jobs.
	DiscardQueue bool
	Now          time.Time
}

// JoinTimeout bounds the request of Join.
const JoinTimeout = 30 * time.Second

// joinRequest and joinAnswer are the request and answer of POST /v1/join.
type joinRequest struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Secret  []byte `json:"secret"`
	Request string `json:"request"` // certificate request, PEM
}

type joinAnswer struct {
	Certificate string   `json:"certificate"` // of the new node, PEM
	CA          string   `json:"ca_certificate"`
	CAKey       string   `json:"ca_key"`
	Peers       []string `json:"peers"`
	ConfdKey    []byte   `json:"confd_key,omitempty"` // see confdkey.go; empty: the cluster has none
}

// WrongClusterError says that the other end of the connection does not belong to the cluster of
// the token: the address is wrong, or the connection is intercepted.
type WrongClusterError struct{ Address string }

func (e *WrongClusterError) Error() string {
	return fmt.Sprintf("the node at %s is not of the cluster that the join token is for; check the address, and where the token comes from",
		e.Address)
}

// Join gives this node an identity and certificates of a cluster. When its daemon starts, it asks
// to be admitted as a member. The daemon must not run, and the caller holds the queue's lock. If
// Join fails or is interrupted, the node belongs to no cluster. Errors are those of Init, and
// *TokenError, *QueueNotEmptyError, *WrongClusterError and *RefusedError.
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
	key, err := tlsserver.NewKey()
	if err != nil {
		return err
	}
	answer, err := askToJoin(ctx, o, t, key)
	if err != nil {
		return err
	}
	ca, err := answer.verify(o, t, key)
	if err != nil {
		return fmt.Errorf("verify the answer of the node at %s: %w", o.From, err)
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
	// After the answer is verified, so that a node that cannot join keeps its queue. Before replaceFiles, whose last file makes the node a
	// member: a member has no jobs of its own.
	for _, dir := range []string{paths.KeptDir, paths.AuditDir, paths.ScheduleDir} {
		if err := moveAside(dataDir, dir, o.Now); err != nil {
			return err
		}
	}
	if old != nil {
		if err := moveQueueAside(dataDir, o.Now); err != nil {
			return err
		}
	}
	if len(answer.ConfdKey) > 0 {
		if err := writeConfdKey(dataDir, answer.ConfdKey); err != nil {
			return err
		}
	}
	return replaceFiles(dataDir, files)
}

// nodeFiles are a node's files in the order in which they must be written. The last file makes
// the node a member of the cluster, and requires all others.
func nodeFiles(ca *authority, key *ecdsa.PrivateKey, certificate []byte, tokens []storedToken, identity *Identity) ([]nodeFile, error) {
	if err := identity.validate(); err != nil {
		return nil, err
	}
	caKey, err := tlsserver.EncodeKey(ca.key)
	if err != nil {
		return nil, err
	}
	nodeKey, err := tlsserver.EncodeKey(key)
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
		{caName, tlsserver.EncodeBlock(tlsserver.Certificate, ca.certificate.Raw), publicMode},
		{caKeyName, caKey, secretMode},
		{certificateName, certificate, publicMode},
		{certificateKeyName, nodeKey, secretMode},
		tokenFile,
		last,
	}, nil
}

// askToJoin sends the token's secret to a node that has proved to belong to the token's cluster.
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

// joinConfig accepts a server whose certificate is signed by the token's authority, if the server
// shows the authority's certificate as well.
func joinConfig(address string, t token) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{string(ProtocolJoin)},
		InsecureSkipVerify: true, // verified below, against the token alone
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

// verify checks that the certificates and keys of the answer match each other and the token. The
// daemon could not start with files that do not.
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
