package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A meter tells people how far the bench has come: on a terminal in a line that changes, elsewhere by a
// line now and then. Its methods may be called concurrently.
type meter struct {
	out      io.Writer
	terminal bool

	mu          sync.Mutex
	what        string
	done, total int
	began, told time.Time
	open        bool // the terminal's line is not ended yet
}

// seldom is between two lines elsewhere than on a terminal.
const seldom = 15 * time.Second

var shown = &meter{out: os.Stderr, terminal: isTerminal(os.Stderr)}

// progress says on stderr what is being done.
func progress(format string, args ...any) { shown.say(format, args...) }

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// say gives a line of its own.
func (m *meter) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	fmt.Fprintf(m.out, "bench: "+format+"\n", args...)
}

// begin says that something of so many steps begins.
func (m *meter) begin(what string, steps int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	m.what, m.done, m.total = what, 0, steps
	m.began, m.told = time.Now(), time.Now()
}

// step says that one more step is done.
func (m *meter) step() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	if m.terminal {
		m.clear()
		fmt.Fprint(m.out, m.line())
		m.open = true
		return
	}
	if time.Since(m.told) >= seldom {
		fmt.Fprintln(m.out, m.line())
		m.told = time.Now()
	}
}

// clear makes room on the terminal for another line.
func (m *meter) clear() {
	if m.open {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.open = false
	}
}

func (m *meter) line() string {
	return fmt.Sprintf("bench:   %s: %d of %d, %s", m.what, m.done, m.total, time.Since(m.began).Round(time.Second))
}
