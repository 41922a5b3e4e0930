package payload

import (
	"fmt"
	"net"
	"sync/atomic"
)

// A limited connection is read up to a number of bytes, or little more by those who read side by side.
type limited struct {
	net.Conn
	most int
	got  atomic.Int64
}

// Limit gives a connection from which no more than most bytes are read: there are protocols in which what is no answer may
// come without end, such as the pings of HTTP/2. Then reading fails. It may be used concurrently.
func Limit(conn net.Conn, most int) net.Conn { return &limited{Conn: conn, most: most} }

// Read fails when that many bytes have been read.
func (l *limited) Read(b []byte) (int, error) {
	left := l.most - int(l.got.Load())
	if left <= 0 {
		return 0, fmt.Errorf("more than %d KiB came", l.most>>10)
	}
	n, err := l.Conn.Read(b[:min(len(b), left)])
	l.got.Add(int64(n))
	return n, err
}
