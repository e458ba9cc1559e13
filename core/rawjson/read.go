package rawjson

// Check reports whether raw is one JSON value: well-formed, at most DepthMax levels deep, with nothing but white space
// around it. The error is an *Error.
func Check(raw []byte) error {
	s := NewScanner(raw)
	err := s.SkipValue()
	return s.complete(err)
}

// ReadObject parses a JSON object and calls member for each of its members, in order. The values lie in raw and are well-formed. White
// space may surround the object. After an error, an *Error, some members may have been passed.
func ReadObject(raw []byte, member func(key, value []byte)) error {
	s := NewScanner(raw)
	return s.complete(s.readObject(member))
}

func (s *Scanner) readObject(member func(key, value []byte)) *Error {
	for more, err := s.Enter('{'); more || err != nil; more, err = s.Next('{') {
		if err != nil {
			return err
		}
		key, err := s.Key()
		if err != nil {
			return err
		}
		start := s.pos
		if err := s.SkipValue(); err != nil {
			return err.Under(string(key))
		}
		member(key, s.since(start))
	}
	return nil
}

// ReadList calls element for each element of a JSON list, as ReadObject does for members.
func ReadList(raw []byte, element func(value []byte)) error {
	s := NewScanner(raw)
	return s.complete(s.readList(element))
}

func (s *Scanner) readList(element func(value []byte)) *Error {
	for more, err := s.Enter('['); more || err != nil; more, err = s.Next('[') {
		if err != nil {
			return err
		}
		start := s.pos
		if err := s.SkipValue(); err != nil {
			return err
		}
		element(s.since(start))
	}
	return nil
}

// ReadText reads a JSON string, with nothing but white space around it. The error is an *Error.
func ReadText(raw []byte) (string, error) {
	s := NewScanner(raw)
	text, err := s.Text()
	if err := s.complete(err); err != nil {
		return "", err
	}
	return string(text), nil
}

// complete is err, or the error for what follows the value.
func (s *Scanner) complete(err *Error) error {
	if err == nil {
		err = s.End()
	}
	if err == nil {
		return nil
	}
	return err.Under("value")
}

// MemberRange is the extent raw[start:end] of the value for key in the object raw; 0, 0 if the key is missing. If the
// key is repeated, the last one counts, as for every reader of a job file. isObject is false if raw is not a valid
// object.
func MemberRange(raw []byte, key string) (start, end int, isObject bool) {
	s := NewScanner(raw)
	for more, err := s.Enter('{'); more || err != nil; more, err = s.Next('{') {
		if err != nil {
			return 0, 0, false
		}
		name, err := s.Key()
		if err != nil {
			return 0, 0, false
		}
		valueStart := s.pos
		if s.SkipValue() != nil {
			return 0, 0, false
		}
		if string(name) == key {
			start, end = valueStart, s.pos
		}
	}
	return start, end, s.End() == nil
}
