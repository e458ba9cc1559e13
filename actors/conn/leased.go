package conn

// Leased is a connection of a master that may cease to be one without having heard
// of it (design.md 9): when leads says no, what would have been answered is not,
// and the client has to ask whoever is the master now. A nil leads changes nothing.
func Leased(c Conn, leads func() bool) Conn {
	if leads == nil {
		return c
	}
	return leasedConn{c, leads}
}

type leasedConn struct {
	Conn
	leads func() bool
}

func (c leasedConn) Answer(frame []byte) {
	if !c.leads() {
		c.Close()
		return
	}
	c.Conn.Answer(frame)
}
