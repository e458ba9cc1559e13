package model

import (
	"fmt"
	"slices"

	"lockstep/core/rawjson"
)

// anyKind is the type-independent interface of a Kind.
type anyKind interface {
	object(c *Config, uuid string) (encoding []byte, found bool)
	putJSON(e *Edit, uuid string, raw []byte) error
	Delete(e *Edit, uuid string)
}

// kindsByName maps the names of containers to kinds.
var kindsByName = map[string]anyKind{
	Nodes.Name: Nodes, Groups.Name: Groups, Instances.Name: Instances, Networks.Name: Networks, Disks.Name: Disks, Filters.Name: Filters,
}

func (k *Kind[T]) object(c *Config, uuid string) ([]byte, bool) {
	o, found := k.at(c).Get(uuid)
	if !found {
		return nil, false
	}
	return o.encoding, true
}

func (k *Kind[T]) putJSON(e *Edit, uuid string, raw []byte) error {
	o, err := k.Decode(raw)
	if err == nil {
		k.putObject(e, uuid, o)
	}
	return err
}

// Delta encodes the change that led to c, given the objects that it touched. ApplyDelta applies it to the previous
// configuration. Its form is [version, ctime, mtime, serial_no, [[kind, uuid, object], …]]; a deleted object is null.
func (c *Config) Delta(touched []Touched) []byte {
	dst := fmt.Appendf(nil, "[%d,", c.Version)
	dst = AppendTime(append(AppendTime(dst, c.CTime), ','), c.MTime)
	dst = fmt.Appendf(dst, ",%d,[", c.Serial)
	for _, t := range touched {
		encoding, found := c.Cluster.encoding, true
		if t.Kind != Clusters.Name {
			encoding, found = kindsByName[t.Kind].object(c, t.UUID)
		}
		if !found {
			encoding = []byte("null")
		}
		dst = append(AppendText(append(AppendText(append(dst, '['), t.Kind), ','), t.UUID), ',')
		dst = append(append(dst, encoding...), "],"...)
	}
	return append(closeWith(dst, '['), ']')
}

// ApplyDelta applies a change that Delta encoded. It returns the new configuration and the touched objects.
func (c *Config) ApplyDelta(delta []byte) (*Config, []Touched, error) {
	if err := rawjson.Check(delta); err != nil {
		return nil, nil, err
	}
	wrong := fmt.Errorf("not a change of a configuration")
	parts, err := tuple(delta, 5, wrong)
	if err != nil {
		return nil, nil, err
	}
	e := c.Edit()
	var bad [4]error
	e.now.Version, bad[0] = DecodeInt(parts[0])
	e.now.CTime, bad[1] = decodeTime(parts[1])
	e.now.MTime, bad[2] = decodeTime(parts[2])
	e.now.Serial, bad[3] = DecodeInt(parts[3])
	if i := slices.IndexFunc(bad[:], func(err error) bool { return err != nil }); i >= 0 {
		return nil, nil, bad[i]
	}
	err = elements(parts[4], func(raw []byte) error {
		of, err := tuple(raw, 3, wrong)
		if err != nil {
			return err
		}
		return e.patch(of[0], of[1], of[2])
	})
	if err != nil {
		return nil, nil, err
	}
	return e.now, e.order, nil
}

// TouchedBy returns the objects that a change has touched, from its encoding by Delta.
func TouchedBy(delta []byte) ([]Touched, error) {
	wrong := fmt.Errorf("not a change of a configuration")
	parts, err := tuple(delta, 5, wrong)
	if err != nil {
		return nil, err
	}
	var all []Touched
	err = elements(parts[4], func(raw []byte) error {
		of, err := tuple(raw, 3, wrong)
		if err != nil {
			return err
		}
		var t Touched
		if t.Kind, err = DecodeText(of[0]); err != nil {
			return err
		}
		t.UUID, err = DecodeText(of[1])
		all = append(all, t)
		return err
	})
	return all, err
}

func (e *Edit) patch(kind, uuid, object []byte) error {
	name, err := DecodeText(kind)
	if err != nil {
		return err
	}
	key, err := DecodeText(uuid)
	if err != nil {
		return err
	}
	of, known := kindsByName[name]
	switch {
	case name == Clusters.Name:
		o, err := Clusters.Decode(object)
		if err == nil {
			e.putCluster(o)
		}
		return err
	case !known:
		return fmt.Errorf("no kind of objects is %q", name)
	case isNull(object):
		of.Delete(e, key)
		return nil
	}
	return of.putJSON(e, key, object)
}
