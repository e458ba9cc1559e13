package noded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"lockstep/core/rawjson"
)

// Verify says which facts node_verify is to report about a node (noded.md 6).
type Verify struct {
	Cluster    string   // name of the cluster
	Files      []string // paths whose digests are wanted
	Version    bool
	Time       bool
	ClientCert bool
}

// Verification is the result of node_verify. The values of checks that were not asked for are zero.
type Verification struct {
	Files      map[string]string // SHA-1 in lower-case hex by path; files that do not exist are absent
	Protocol   int64             // version of the protocol: 3000000
	Release    string            // version of the software: 3.0.2
	Time       time.Time         // clock of the node
	ClientCert string            // digest of the node's client certificate, in the form of ssconf master_candidates_certs
	CertFault  string            // why the node has no valid client certificate; "": it has one
}

// Keys of the checks.
const (
	checkFiles      = "filelist"
	checkVersion    = "version"
	checkTime       = "time"
	checkClientCert = "client-cert"
)

// Request encodes the call of node_verify.
func (v Verify) Request() Request {
	what := map[string]any{}
	if len(v.Files) > 0 {
		what[checkFiles] = v.Files
	}
	for key, asked := range map[string]bool{checkVersion: v.Version, checkTime: v.Time, checkClientCert: v.ClientCert} {
		if asked {
			what[key] = nil
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode([]any{what, v.Cluster, struct{}{}}) // strings and booleans can always be encoded
	return Request{NodeVerify, bytes.TrimSpace(b.Bytes())}
}

// DecodeVerify decodes the body of node_verify, for fake node daemons. It ignores other checks.
func DecodeVerify(body []byte) (Verify, error) {
	args, err := arguments(body, 3)
	if err != nil {
		return Verify{}, err
	}
	var v Verify
	var what map[string]json.RawMessage
	if err := json.Unmarshal(args[0], &what); err != nil {
		return Verify{}, err
	}
	if files, asked := what[checkFiles]; asked {
		if err := json.Unmarshal(files, &v.Files); err != nil {
			return Verify{}, err
		}
	}
	_, v.Version = what[checkVersion]
	_, v.Time = what[checkTime]
	_, v.ClientCert = what[checkClientCert]
	v.Cluster, err = rawjson.ReadText(args[1])
	return v, err
}

// DecodeVerification decodes the result of a call. The result must have a value for each check that the call asks for; others are
// ignored.
func (v Verify) DecodeVerification(result json.RawMessage) (found Verification, err error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(result, &values); err != nil {
		return found, fmt.Errorf("the result is no object: %s", rawjson.Clipped(result))
	}
	for _, check := range []struct {
		asked  bool
		key    string
		decode func(json.RawMessage) error
	}{
		{len(v.Files) > 0, checkFiles, func(raw json.RawMessage) error { return json.Unmarshal(raw, &found.Files) }},
		{v.Version, checkVersion, func(raw json.RawMessage) error { return pair(raw, &found.Protocol, &found.Release) }},
		{v.Time, checkTime, func(raw json.RawMessage) error {
			var seconds, micros int64
			err := pair(raw, &seconds, &micros)
			found.Time = time.Unix(seconds, micros*1000)
			return err
		}},
		{v.ClientCert, checkClientCert, found.decodeClientCert},
	} {
		if !check.asked {
			continue
		}
		raw, present := values[check.key]
		if !present {
			return found, fmt.Errorf("the result has no %s", check.key)
		}
		if err := check.decode(raw); err != nil {
			return found, fmt.Errorf("decode the result of %s: %w", check.key, err)
		}
	}
	return found, nil
}

// decodeClientCert decodes [null, digest] into ClientCert, or [code, text] into CertFault if the certificate is invalid.
func (v *Verification) decodeClientCert(raw json.RawMessage) error {
	var code json.RawMessage
	var text string
	if err := pair(raw, &code, &text); err != nil {
		return err
	}
	if rawjson.IsNull(code) {
		v.ClientCert = text
	} else {
		v.CertFault = text
	}
	return nil
}

func pair(raw json.RawMessage, first, second any) error {
	parts, err := arguments(raw, 2)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(parts[0], first); err != nil {
		return err
	}
	return json.Unmarshal(parts[1], second)
}
