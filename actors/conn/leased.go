package conn

// Leased guards the answers of a master, whose lease can end before it hears of another master (design.md "Master"). leads
// reports whether the lease holds. Without the lease, Answer closes the connection instead, and the client asks the
// present master. A nil leads means that there is no lease.
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

func (c leasedConn) Answer(parts ...[]byte) {
	if !c.leads() {
		c.Close()
		return
	}
	c.Conn.Answer(parts...)
}
