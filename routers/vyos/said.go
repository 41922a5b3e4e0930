package vyos

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A said is how far a file of what scripts say was written at a time.
type said struct {
	path string
	info os.FileInfo // nil: it was not there
}

// said looks at what vyos-configd of VyOS 1.4 has written so far for sessions that go by no process, as ours:
// the reason of a refusal is in it, and nowhere else.
func (s system) said() said {
	path := s.path(configdSays)
	info, _ := os.Lstat(path)
	return said{path, info}
}

// mostSaid bounds what is read of it, in bytes.
const mostSaid = 64 << 10

// since gives what was written to it since then; nothing where it cannot be told, as anybody can put a file there.
func (s said) since() []byte {
	f, err := os.OpenFile(s.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	from := int64(0)
	if s.info != nil && os.SameFile(s.info, info) {
		if info.ModTime().Equal(s.info.ModTime()) {
			return nil
		}
		if info.Size() > s.info.Size() {
			from = s.info.Size()
		}
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(from, info.Size()-mostSaid), mostSaid))
	if err != nil {
		return nil
	}
	return append([]byte("\n"), text...)
}
