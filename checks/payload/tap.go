package payload

import (
	"net"
	"strings"
	"sync"
)

// A Tap is a connection that keeps how what comes over it begins, for people to see where it is not understood. It may
// be used concurrently.
type Tap struct {
	net.Conn

	mu   sync.Mutex
	head []byte
	came int
}

// Read reads, and keeps the first 200 bytes of all that comes.
func (t *Tap) Read(b []byte) (int, error) {
	const most = 200
	n, err := t.Conn.Read(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head = append(t.head, b[:min(n, most-len(t.head))]...)
	t.came += n
	return n, err
}

// Came gives how many bytes have come by now.
func (t *Tap) Came() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.came
}

// String shows the beginning as Dump does, but the values of headers of HTTP as Headers does.
func (t *Tap) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.came == 0 {
		return "nothing came back"
	}
	return dump(masked(t.head), t.came, t.came > len(t.head))
}

// masked leaves out the values of headers that may be secret, also of those that are written wrong: what parts a name from
// its value may be any of those that are mistaken for a colon, and lines that begin with a blank go on with the value.
func masked(head []byte) []byte {
	var b strings.Builder
	hidden := false
	for line := range strings.Lines(string(head)) {
		text := strings.TrimRight(line, "\r\n")
		end := strings.IndexAny(text, ": \t=")
		switch {
		case end == 0 && hidden:
			b.WriteString(" …" + line[len(text):])
			continue
		case end > 0:
			hidden = secret(text[:end])
		default:
			hidden = false
		}
		if hidden {
			line = text[:end+1] + " …" + line[len(text):]
		}
		b.WriteString(line)
	}
	return []byte(b.String())
}
