package peer

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/edge/tlsserver"
)

// join gives a node with a valid token the certificates and keys of a node of the cluster. It refuses a name or an address that another
// node has. The node becomes a member by a later request.
func (s *server) join(w http.ResponseWriter, r *http.Request) {
	var request joinRequest
	release, ok := readBody(w, r, joinBodyMax, &request)
	defer release()
	if !ok {
		return
	}
	now := time.Now()
	err := checkSecret(s.listener.credentials.dataDir, request.Secret, now)
	refused := logrus.Fields{"address": r.RemoteAddr, "err": err}
	if errors.Is(err, errTokenUnknown) || errors.Is(err, errTokenExpired) {
		s.refusals.Record("refused", refused)
		writeError(w, http.StatusForbidden, err)
		return
	}
	if err != nil {
		s.failures.Record("refused", refused)
		writeError(w, http.StatusInternalServerError, errors.New("it cannot read its join tokens; see its log"))
		return
	}
	if err := errors.Join(CheckName(request.Name), CheckAddress(request.Address)); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	if s.listener.isKnownMember(request.Name) {
		writeError(w, http.StatusConflict,
			fmt.Errorf(`there is a node %s already; choose another name, or say "lockstep node remove %s" first`, request.Name, request.Name))
		return
	}
	if s.listener.credentials.isAddressTaken(request.Address) {
		writeError(w, http.StatusConflict, fmt.Errorf("another node has the address %s; say the new node's own", request.Address))
		return
	}
	answer, err := s.listener.credentials.admit(request, now)
	if err != nil {
		s.refusals.Record("refused", logrus.Fields{"address": r.RemoteAddr, "node": request.Name, "node_address": request.Address, "err": err})
		writeError(w, http.StatusBadRequest, fmt.Errorf("reading the certificate request of a joining node: %w", err))
		return
	}
	s.log.WithFields(logrus.Fields{"address": r.RemoteAddr, "node": request.Name, "node_address": request.Address}).
		Info("certificate issued to a joining node")
	writeJSON(w, http.StatusOK, answer)
}

// isAddressTaken reports whether this node or one of its peers has the address. It reports false
// if node.json cannot be read; admit then returns the error.
func (c *Credentials) isAddressTaken(address string) bool {
	self, err := LoadIdentity(c.dataDir)
	return err == nil && (self.Address == address || slices.Contains(self.Peers, address))
}

func (c *Credentials) admit(r joinRequest, now time.Time) (*joinAnswer, error) {
	certificate, err := c.ca.admit(r.Name, r.Request, now)
	if err != nil {
		return nil, err
	}
	key, err := tlsserver.EncodeKey(c.ca.key)
	if err != nil {
		return nil, err
	}
	self, err := LoadIdentity(c.dataDir) // read again: the daemon changes the peers
	if err != nil {
		return nil, err
	}
	peers := []string{self.Address}
	for _, address := range self.Peers {
		if !slices.Contains(peers, address) {
			peers = append(peers, address)
		}
	}
	confdKey, err := readConfdKey(c.dataDir)
	if err != nil {
		return nil, err
	}
	return &joinAnswer{
		ConfdKey:    confdKey,
		Certificate: certificate,
		CA:          string(tlsserver.EncodeBlock(tlsserver.Certificate, c.ca.certificate.Raw)),
		CAKey:       string(key),
		Peers:       peers,
	}, nil
}
