package reserve

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"lockstep/core/config/model"
	"lockstep/core/config/tree"
	"lockstep/core/lock"
	"lockstep/core/rawjson"
)

// fileKeys are the keys of tempres.data in their order (config.md 5.6).
var fileKeys = []string{"dRBD", "mACs", "dRBDSecrets", "lVs", "iPv4s"}

// Encode returns the content of tempres.data as Ganeti writes it. EncodeExtra returns the rest of the state.
func (s State) Encode() []byte {
	dst := []byte(`{"dRBD":[`)
	for i, node := range s.MinorNodes() {
		dst = append(model.AppendText(append(comma(dst, i), '['), node), ",["...)
		j := 0
		for minor, disk := range s.Minors(node) {
			dst = strconv.AppendInt(append(comma(dst, j), '['), minor, 10)
			dst = append(model.AppendText(append(dst, ','), disk), ']')
			j++
		}
		dst = append(dst, "]]"...)
	}
	for kind, values := range s.values {
		dst = append(append(append(dst, `],"`...), fileKeys[1+kind]...), `":[`...)
		dst = appendOwned(dst, values, func(o lock.Owner) lock.Owner { return o }, model.AppendText)
	}
	dst = append(dst, `],"iPv4s":[`...)
	dst = appendOwned(dst, s.ips, func(h ipReservation) lock.Owner { return h.Owner }, func(dst []byte, key string) []byte {
		return ipOf(key).Append(dst)
	})
	return append(dst, "]}"...)
}

// Append writes the action as [action, address, network].
func (ip IP) Append(dst []byte) []byte {
	action := `["reserve","`
	if ip.Release {
		action = `["release","`
	}
	dst = append(append(dst, action...), model.FormatIPv4(ip.Address)...)
	return append(model.AppendText(append(dst, `",`...), ip.Network), ']')
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

// appendOwned writes the keys of a map by owner: [[owner,[key…]],…].
func appendOwned[V any](dst []byte, m tree.Map[V], owner func(V) lock.Owner, write func([]byte, string) []byte) []byte {
	by := map[lock.Owner][]string{}
	var owners []lock.Owner
	for key, v := range m.All() {
		o := owner(v)
		if by[o] == nil {
			owners = append(owners, o)
		}
		by[o] = append(by[o], key)
	}
	slices.SortFunc(owners, lock.Owner.Compare)
	for i, o := range owners {
		dst = append(append(append(comma(dst, i), '['), o.String()...), ",["...)
		for j, key := range by[o] {
			dst = write(comma(dst, j), key)
		}
		dst = append(dst, "]]"...)
	}
	return dst
}

// Decode decodes tempres.data. A missing key and a duplicate value are errors.
func Decode(raw []byte) (State, error) {
	var s State
	parts := map[string][]byte{}
	if err := rawjson.ReadObject(raw, func(key, value []byte) { parts[string(key)] = value }); err != nil {
		return s, fmt.Errorf("parsing temporary reservations: %w", err)
	}
	readers := map[string]func(*State, []byte) error{
		"dRBD": readMinors, "mACs": readValues(MAC), "dRBDSecrets": readValues(Secret), "lVs": readValues(LV), "iPv4s": readIPs}
	for _, key := range fileKeys {
		if parts[key] == nil {
			return s, fmt.Errorf("parsing temporary reservations: key '%s' not found", key)
		}
		if err := readers[key](&s, parts[key]); err != nil {
			return State{}, fmt.Errorf("parsing temporary reservations: Can't parse value for '%s': %w", key, err)
		}
	}
	return s, nil
}

// pairs calls pair for each element of a list of pairs in tempres.data. The text about another element is Ganeti's; Decode says of which
// key it is.
func pairs(raw []byte, pair func(a, b json.RawMessage) error) error {
	var all [][]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	for _, p := range all {
		if len(p) != 2 {
			return errors.New("Unable to read Pair")
		}
		if err := pair(p[0], p[1]); err != nil {
			return err
		}
	}
	return nil
}

// readMinors reads the minors of tempres.data, by node. A negative one is an error. Their callers are in no field of that file; WithExtra
// adds them.
func readMinors(s *State, raw []byte) error {
	return pairs(raw, func(a, b json.RawMessage) error {
		node, err := model.DecodeText(a)
		if err != nil {
			return err
		}
		return pairs(b, func(a, b json.RawMessage) error {
			minor, err := model.DecodeInt(a)
			if err == nil && minor < 0 {
				err = errors.New("a minor is negative")
			}
			if err != nil {
				return err
			}
			disk, err := model.DecodeText(b)
			s.minors = s.minors.Put(minorKey(node, minor), minorReservation{Disk: disk})
			return err
		})
	})
}

// owned decodes the format of appendOwned.
func owned(raw []byte, value func(o lock.Owner, raw json.RawMessage) error) error {
	return pairs(raw, func(a, b json.RawMessage) error {
		var o lock.Owner
		if err := o.UnmarshalJSON(a); err != nil {
			return err
		}
		var values []json.RawMessage
		if err := json.Unmarshal(b, &values); err != nil {
			return err
		}
		for _, v := range values {
			if err := value(o, v); err != nil {
				return err
			}
		}
		return nil
	})
}

func readValues(kind Kind) func(*State, []byte) error {
	return func(s *State, raw []byte) error {
		return owned(raw, func(o lock.Owner, raw json.RawMessage) error {
			value, err := model.DecodeText(raw)
			if err == nil {
				*s, err = s.Reserve(kind, value, o)
			}
			return err
		})
	}
}

func readIPs(s *State, raw []byte) error {
	return owned(raw, func(o lock.Owner, raw json.RawMessage) error {
		var parts []string
		if err := json.Unmarshal(raw, &parts); err != nil {
			return err
		}
		if len(parts) != 3 || parts[0] != "reserve" && parts[0] != "release" {
			return errors.New("Unable to read Triple")
		}
		address, err := model.ParseIPv4(parts[1])
		if err == nil {
			*s, err = s.ReserveIP(IP{parts[0] == "release", parts[2], address}, o)
		}
		return err
	})
}
