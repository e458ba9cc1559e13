package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// fileLineMax bounds a line of the answer of GET /v1/files, in bytes.
const fileLineMax = 64 << 10

// Client sends requests to the other nodes of the cluster, over connections with this node's certificate. Its methods may be called from
// any goroutine, and take as long as their contexts allow. An error that another node has answered is a *RefusedError.
type Client struct{ http *http.Client }

// NewClient returns a client that shows these credentials.
func NewClient(c *Credentials) *Client {
	return &Client{newHTTPClient(func(ctx context.Context, address string) (net.Conn, error) {
		return c.Dial(ctx, address, ProtocolNode)
	})}
}

// RequestMembership asks the node at an address to make this node a member. Only the master can;
// another node answers StatusNotMaster.
func (c *Client) RequestMembership(ctx context.Context, address string, r MembershipRequest) (Admission, error) {
	var admission Admission
	code, err := exchange(ctx, c.http, http.MethodPost, address, memberPath, r, &admission)
	if err != nil {
		return Admission{}, err
	}
	if code == http.StatusMisdirectedRequest {
		admission.Status = StatusNotMaster
	}
	switch admission.Status {
	case StatusMember, StatusWaiting, StatusNotMaster:
		return admission, nil
	}
	return Admission{}, fmt.Errorf("the answer of the node at %s to %s has the unknown status %q", address, memberPath, admission.Status)
}

// About asks a node for its state. Any answer without one is an error.
func (c *Client) About(ctx context.Context, address string) (About, error) {
	var about About
	code, err := exchange(ctx, c.http, http.MethodGet, address, aboutPath, nil, &about)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("the node at %s answers %s with code %d", address, aboutPath, code)
	}
	return about, err
}

// ReloadOpcodes makes a node read its declared opcodes again, and returns their number. A mistake in the node's files is a
// *RefusedError; the node's former opcodes stay in force.
func (c *Client) ReloadOpcodes(ctx context.Context, address string) (int, error) {
	var answer declaredOpcodes
	code, err := exchange(ctx, c.http, http.MethodPost, address, opcodesPath, nil, &answer)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("the node at %s answers %s with code %d", address, opcodesPath, code)
	}
	return answer.Declared, err
}

// Files calls each for every file that all nodes have, as the node at an address has it, in the
// order of the answer. It returns nil only after a complete answer. An error of each ends it. It asks for the files of only if
// there are any, at most OnlyMax; a node of a former version answers for all files nevertheless.
func (c *Client) Files(ctx context.Context, address string, only []string, each func(FileDigest) error) error {
	path := filesPath
	if len(only) > 0 {
		path += "?" + url.Values{onlyParameter: only}.Encode()
	}
	response, err := send(ctx, c.http, http.MethodGet, address, path, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, fileLineMax)
	for lines.Scan() {
		var line fileLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("read the files of the node at %s: %w", address, err)
		}
		if line.Error != "" {
			return fmt.Errorf("read the files of the node at %s: %w", address, errors.New(line.Error))
		}
		if err := each(line.FileDigest); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil { // also if the answer was cut off
		return fmt.Errorf("read the files of the node at %s: %w", address, err)
	}
	return nil
}
