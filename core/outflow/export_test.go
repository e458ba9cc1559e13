package outflow

// Memory is how many bytes of output the source has memory for.
func (s *Source) Memory() int { return len(s.window.ring) }
