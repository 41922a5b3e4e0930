package payload

import (
	"fmt"
	"net"
)

// A limited connection is read up to a number of bytes.
type limited struct {
	net.Conn
	most, left int
}

// Limit gives a connection from which no more than most bytes are read: there are protocols in which what is no answer may
// come without end, such as the pings of HTTP/2. Then reading fails.
func Limit(conn net.Conn, most int) net.Conn { return &limited{conn, most, most} }

// Read fails when that many bytes have been read.
func (l *limited) Read(b []byte) (int, error) {
	if l.left == 0 {
		return 0, fmt.Errorf("more than %d KiB came", l.most>>10)
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}
