package peer

import (
	"time"

	"github.com/google/uuid"

	"lockstep/edge/tlsserver"
)

// InitOptions are the options of Init.
type InitOptions struct {
	Name    string // of the node, see CheckName
	Address string // by which other nodes will reach it, see CheckAddress
	Now     time.Time
	// StartSecret makes the authority and the token, see StartToken; nil: both are random.
	StartSecret []byte
}

// Init makes a cluster with this node as its only member, and returns a join token for other
// nodes, valid for TokenLifetime. The daemon must not run. The error is a *AlreadyMemberError if
// the node belongs to a cluster already, and a *LeftoverError if it belonged to one.
func Init(dataDir string, o InitOptions) (string, error) {
	identity := &Identity{Name: o.Name, UUID: uuid.NewString(), Address: o.Address, Voting: true, Founder: true, Peers: []string{}}
	if err := identity.validate(); err != nil {
		return "", err
	}
	if err := CheckDataDir(dataDir); err != nil {
		return "", err
	}
	if err := requireNoIdentity(dataDir); err != nil {
		return "", err
	}
	if err := makeDirectory(dataDir); err != nil {
		return "", err
	}
	ca, made, err := o.authority()
	if err != nil {
		return "", err
	}
	key, err := tlsserver.NewKey()
	if err != nil {
		return "", err
	}
	certificate, err := ca.issue(o.Name, &key.PublicKey, o.Now)
	if err != nil {
		return "", err
	}
	block := tlsserver.EncodeBlock(tlsserver.Certificate, certificate)
	tokens := []storedToken{made.hashed(o.Now.Add(TokenLifetime))}
	files, err := nodeFiles(ca, key, block, tokens, identity)
	if err != nil {
		return "", err
	}
	// The key for ConfD is written before the files that make the node a member. After a crash in between, the next attempt uses this key.
	if err := ensureConfdKey(dataDir); err != nil {
		return "", err
	}
	return made.String(), replaceFiles(dataDir, files)
}

// authority makes the certificate authority of the new cluster, and the first token for joining nodes.
func (o InitOptions) authority() (*authority, token, error) {
	if o.StartSecret != nil {
		ca, t, err := startAuthority(o.StartSecret)
		if err != nil {
			return nil, token{}, err
		}
		ca.incarnation = uuid.NewString()
		return ca, t, nil
	}
	ca, err := newAuthority(uuid.NewString(), o.Now)
	if err != nil {
		return nil, token{}, err
	}
	return ca, newToken(ca.certificate), nil
}
