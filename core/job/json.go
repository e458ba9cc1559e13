package job

// CheckValue tells whether Decode and Encode accept raw as one JSON value: well-formed, at most 512 levels deep, with
// nothing but white space around it. The error is a *DecodeError.
func CheckValue(raw []byte) error {
	s := scanner{data: raw}
	s.skipSpace()
	if err := s.skipValue(); err != nil {
		return err.under("value")
	}
	if err := s.end(); err != nil {
		return err.under("value")
	}
	return nil
}

// Members hands out the members of a JSON object, in one pass and in their order; the values lie in raw, and are well
// formed. White space may surround the object. The error is a *DecodeError.
func Members(raw []byte, member func(key, value []byte)) error {
	s := scanner{data: raw}
	s.skipSpace()
	if err := s.members(member); err != nil {
		return err.under("value")
	}
	if err := s.end(); err != nil {
		return err.under("value")
	}
	return nil
}

func (s *scanner) members(member func(key, value []byte)) *DecodeError {
	for more, err := s.enter('{'); more || err != nil; more, err = s.next('{') {
		if err != nil {
			return err
		}
		key, err := s.key()
		if err != nil {
			return err
		}
		start := s.pos
		if err := s.skipValue(); err != nil {
			return err.under(string(key))
		}
		member(key, s.data[start:s.pos:s.pos])
	}
	return nil
}

// Elements hands out the elements of a JSON list, as Members does those of an object.
func Elements(raw []byte, element func(value []byte)) error {
	s := scanner{data: raw}
	s.skipSpace()
	if err := s.elements(element); err != nil {
		return err.under("value")
	}
	if err := s.end(); err != nil {
		return err.under("value")
	}
	return nil
}

func (s *scanner) elements(element func(value []byte)) *DecodeError {
	for more, err := s.enter('['); more || err != nil; more, err = s.next('[') {
		if err != nil {
			return err
		}
		start := s.pos
		if err := s.skipValue(); err != nil {
			return err
		}
		element(s.data[start:s.pos:s.pos])
	}
	return nil
}

// Text reads a JSON string, with nothing but white space around it. The error is a
// *DecodeError.
func Text(raw []byte) (string, error) {
	s := scanner{data: raw}
	s.skipSpace()
	if s.peek() != '"' {
		return "", s.fail("want a string, found %s", s.found()).under("value")
	}
	text, err := s.text()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return "", err.under("value")
	}
	return string(text), nil
}
