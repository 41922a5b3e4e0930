package unit

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// queueMax is how much may wait to be written, in bytes.
const queueMax = 1 << 20

var errFull = errors.New("the system bus takes no more")

// A pipe is what the connection reads from and writes to. It knows when that has ended. Nobody who writes
// waits: a goroutine of its own does, for a bus that hangs would otherwise hold up whoever asks it.
type pipe struct {
	net.Conn
	in    *bufio.Reader
	read  sync.Mutex // held while somebody reads
	once  sync.Once
	ended chan struct{} // closed when nothing more can be read

	mu   sync.Mutex
	out  []byte        // to be written
	more chan struct{} // holds one when there is something to be written
	idle chan struct{} // closed when the goroutine that writes has ended
}

func newPipe(c net.Conn) *pipe {
	p := &pipe{Conn: c, in: bufio.NewReader(c), ended: make(chan struct{}), more: make(chan struct{}, 1), idle: make(chan struct{})}
	go p.write()
	return p
}

// Read reads.
func (p *pipe) Read(b []byte) (int, error) {
	p.read.Lock()
	defer p.read.Unlock()
	n, err := p.in.Read(b)
	if err != nil {
		p.end()
	}
	return n, err
}

// Write has b written. It ends the connection when too much waits for that already.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over():
		return 0, net.ErrClosed
	case len(p.out)+len(b) > queueMax:
		p.Conn.Close()
		return 0, errFull
	}
	p.out = append(p.out, b...)
	poke(p.more)
	return len(b), nil
}

// write writes what there is until the end. After a part of a message nothing would be understood, so a write
// that fails ends the connection.
func (p *pipe) write() {
	defer close(p.idle)
	var b []byte
	for {
		select {
		case <-p.ended:
			return
		case <-p.more:
		}
		p.mu.Lock()
		b, p.out = p.out, b[:0]
		p.mu.Unlock()
		err := p.SetWriteDeadline(time.Now().Add(patience))
		if err == nil {
			_, err = p.Conn.Write(b)
		}
		if err != nil {
			p.Conn.Close()
			return
		}
	}
}

// Close closes it. Then nobody waits in Read any more, and nothing is written.
func (p *pipe) Close() error {
	p.end()
	err := p.Conn.Close()
	<-p.idle
	p.read.Lock()
	defer p.read.Unlock()
	return err
}

func (p *pipe) end() { p.once.Do(func() { close(p.ended) }) }

func (p *pipe) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
