package calls

import (
	"errors"
	"fmt"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

// Calls about MAC addresses, DRBD secrets and logical volumes (config.md 4.6, 5.2 and 5.4).

func dropAllReservations(a *arguments) step {
	a.count(1)
	owner := a.owner(0)
	return func(t *tx) ([]byte, error) {
		t.Reserved = t.Reserved.Drop(owner)
		return void, nil
	}
}

// tries is the number of attempts to generate an unused value.
const tries = 64

// generate reserves the first value from next that nothing in the configuration and no reservation has, for a client, and answers with
// the value.
func (t *tx) generate(kind reserve.Kind, owner lock.Owner, isUsed func(value string) bool, next func() string) ([]byte, error) {
	for range tries {
		value := next()
		if isUsed(value) || t.Reserved.Has(kind, value) {
			continue
		}
		var err error
		t.Reserved, err = t.Reserved.Reserve(kind, value, owner)
		return quotedJSON(value), err
	}
	return nil, reservation("Not able generate new resource")
}

// isMAC reports whether an interface of an instance in the configuration has a MAC address. Reservations are not looked at.
func (t *tx) isMAC(mac string) bool {
	for range t.config().MACUsers(mac) {
		return true
	}
	return false
}

func generateMAC(a *arguments) step {
	a.count(2)
	owner := a.owner(0)
	network := readOpt(a, 1, model.DecodeText)
	return func(t *tx) ([]byte, error) {
		prefix := t.config().Cluster.Value.MACPrefix
		if network.Set {
			n, found := t.config().Networks.Get(network.Value)
			if !found {
				return nil, noNetwork(network.Value)
			}
			if n.Value.MACPrefix.Set {
				prefix = n.Value.MACPrefix.Value
			}
		}
		return t.generate(reserve.MAC, owner, t.isMAC, func() string {
			octets := t.env.Random(3)
			return fmt.Sprintf("%s:%02x:%02x:%02x", prefix, octets[0], octets[1], octets[2])
		})
	}
}

func generateDRBDSecret(a *arguments) step {
	a.count(1)
	owner := a.owner(0)
	return func(t *tx) ([]byte, error) {
		return t.generate(reserve.Secret, owner, t.config().HasSecret, func() string { return fmt.Sprintf("%x", t.env.Random(20)) })
	}
}

func reserveMAC(a *arguments) step {
	a.count(2)
	owner := a.owner(0)
	mac := a.text(1)
	return func(t *tx) ([]byte, error) {
		if t.isMAC(mac) {
			return nil, reservation("MAC already in use")
		}
		return void, t.reserve(reserve.MAC, mac, owner)
	}
}

func (t *tx) reserve(kind reserve.Kind, value string, owner lock.Owner) (err error) {
	t.Reserved, err = t.Reserved.Reserve(kind, value, owner)
	return err
}

// reserveLV reserves a logical volume for the client. It refuses a volume that a disk of the configuration has, attached or not
// (config.md 12.8).
func reserveLV(a *arguments) step {
	a.count(2)
	owner := a.owner(0)
	lv := read(a, 1, decodeLV)
	return func(t *tx) ([]byte, error) {
		if t.config().HasLV(lv) {
			return nil, reservation("LV already in use")
		}
		return void, t.reserve(reserve.LV, lv, owner)
	}
}

func decodeLV(raw []byte) (string, error) {
	s, err := model.DecodeText(raw)
	group, volume, found := strings.Cut(s, "/")
	if err != nil || !found {
		return "", fmt.Errorf("Invalid JSON value %s for a logical volume", show(raw))
	}
	wrong := append(checkName("Volume group name", group), checkName("Volume name", volume)...)
	for _, word := range []string{"snapshot", "pvmove"} {
		if volume == word {
			wrong = append(wrong, fmt.Sprintf("Volume name must not be '%s'", word))
		}
	}
	if strings.Contains(volume, "_mlog") {
		wrong = append(wrong, "Volume name must not contain '_mlog'.")
	}
	if strings.Contains(volume, "_mimage") {
		wrong = append(wrong, "Volume namemust not contain '_mimage'.") // Ganeti's spelling
	}
	if len(wrong) > 0 {
		return "", errors.New("Validation errors: " + strings.Join(wrong, "; "))
	}
	return s, nil
}

// checkName checks the name of a volume group or volume, and returns what is wrong with it in Ganeti's words; empty: it is valid. what
// names it in these words.
func checkName(what, name string) []string {
	var wrong []string
	isGood := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("+_.-", r)
	}
	if name == "" {
		wrong = append(wrong, what+" must be non-empty")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !isGood(r) }) {
		wrong = append(wrong, what+" must consist only of [a-z][A-Z][0-9][+_.-]")
	}
	if strings.HasPrefix(name, "-") {
		wrong = append(wrong, what+" must not start with '-'")
	}
	if name == "." || name == ".." {
		wrong = append(wrong, fmt.Sprintf("%s must not be '%s'", what, name))
	}
	return wrong
}
