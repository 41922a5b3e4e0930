// Package ctl speaks to BIRD over its control socket, as BIRD's own birdc does, without a fork.
//
// The daemon greets with a banner. A request is one line; the reply is lines that each begin with four
// digits and "-" (more follows) or " " (the last one); a line that begins with a space goes on under the
// code of the line before, and one that begins with "+" comes unasked. Codes below 8000 are answers,
// 8xxx what could not be done, 9xxx what was not understood. Seen on BIRD 1.6.8, 2.0.12, 2.17.6 and 3.1.8.
package ctl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"vouch/routers"
)

const (
	// MaxReply is the longest reply taken, in bytes. A larger one is an error, as somebody asked for a
	// whole table where one prefix was meant.
	MaxReply = 16 << 20
	// maxLine is the longest line taken, in bytes. BIRD 2.0.12 writes none above 4 KiB.
	maxLine = 64 << 10
	// maxCommand is what BIRD's own buffer holds: of a longer line it makes an error or garbage.
	maxCommand = 4095
)

// The codes that matter here, from BIRD's doc/reply_codes. They are the same in 1.6, 2 and 3.
const (
	ReadingConfig       = 2    // configure: the file is being read
	Reconfigured        = 3    // configure: in force
	ReconfigInProgress  = 4    // configure: protocols are being restarted, nothing is said at the end
	ReconfigQueued      = 5    // configure: another one is in progress, this one waits
	AlreadyDisabled     = 8    // disable
	Disabled            = 9    //
	AlreadyEnabled      = 10   // enable
	Enabled             = 11   //
	Status              = 13   // show status: its last line
	ReloadStarted       = 15   // reload
	Restricted          = 16   // restrict
	NothingToDo         = 19   // configure confirm, configure undo
	ConfigurationOK     = 20   // configure check
	UndoScheduled       = 22   // configure timeout
	Evaluated           = 23   // eval
	ProtocolRow         = 1002 // show protocols
	ProtocolDetail      = 1006 // show protocols all
	RouteRow            = 1007 // show route; 2 and 3: also the name of a table
	RouteDetail         = 1008 // show route all
	StaticRow           = 1009 // show static
	RouterID            = 1011 // show status, and what else is told there
	RouteAttribute      = 1012 // show route all
	Neighbours          = 1013 // show ospf neighbors
	OSPFInterface       = 1015 // show ospf interface
	OSPFState           = 1016 // show ospf state
	NotFound            = 8001 // the network is not in the table: an answer
	ConfigurationFailed = 8002
	NoProtocolMatches   = 8003
	AccessDenied        = 8007
	ParseError          = 9001
	WrongSymbol         = 9002 // 1.6: a name that is none of a protocol
	firstRefusal        = 8000
)

// A Line is one line of a reply, without its code and what stands between.
type Line struct {
	Code int
	Text string
}

// A Reply is what BIRD answered to one command: at least one line.
type Reply struct {
	Lines []Line
}

// Code is that of the last line.
func (r Reply) Code() int { return r.Lines[len(r.Lines)-1].Code }

// Has tells whether a line has one of the codes.
func (r Reply) Has(codes ...int) bool {
	for _, l := range r.Lines {
		for _, c := range codes {
			if l.Code == c {
				return true
			}
		}
	}
	return false
}

// Texts gives the lines with a code.
func (r Reply) Texts(code int) []string {
	var texts []string
	for _, l := range r.Lines {
		if l.Code == code {
			texts = append(texts, l.Text)
		}
	}
	return texts
}

// Refused gives a *Refusal when any line of the reply says no. NotFound is one of those codes, so whoever
// asks for a route looks for it first.
func (r Reply) Refused(command string) error {
	for _, l := range r.Lines {
		if l.Code >= firstRefusal {
			return &Refusal{Command: command, Code: l.Code, Text: l.Text}
		}
	}
	return nil
}

// A Refusal is BIRD's no: class routers.ErrRefused.
type Refusal struct {
	Command string
	Code    int    // 8xxx or 9xxx
	Text    string // BIRD's own; for ConfigurationFailed "FILE:LINE:COLUMN what is wrong"
}

// Error names the command, the code and what BIRD said.
func (r *Refusal) Error() string { return fmt.Sprintf("%q: %04d %s", r.Command, r.Code, r.Text) }

// Unwrap gives the class.
func (r *Refusal) Unwrap() error { return routers.ErrRefused }

// Check says whether a text is one command that BIRD can take: not empty, at most 4095 bytes, without
// control characters, which would make it two commands, and without ";" and "#", which no command needs.
func Check(command string) error {
	why := ""
	switch {
	case strings.TrimSpace(command) == "":
		why = "it is empty"
	case len(command) > maxCommand:
		why = fmt.Sprintf("it is longer than %d bytes", maxCommand)
	case strings.ContainsFunc(command, func(r rune) bool { return r < ' ' || r == 0x7f }):
		why = "it has a control character"
	case strings.ContainsAny(command, ";#"):
		why = `it has a ";" or "#"`
	default:
		return nil
	}
	if len(command) > 80 {
		command = command[:80] + "…"
	}
	return routers.Errorf(routers.ErrRefused, "%q is no command for bird: %s", command, why)
}

// errGarbage is a line that is none of the protocol's.
var errGarbage = errors.New("not a line of bird's protocol")

// A reader takes replies from a stream. indent is what a line that goes on begins with.
type reader struct {
	r      *bufio.Reader
	indent string
}

func newReader(r io.Reader, indent string) *reader {
	return &reader{bufio.NewReaderSize(r, maxLine), indent}
}

// reply reads up to the last line of one reply. At the end of the stream the error is io.EOF when nothing
// of a reply was there, and io.ErrUnexpectedEOF when it breaks off.
func (r *reader) reply() (Reply, error) {
	var reply Reply
	for size := 0; ; {
		raw, err := r.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return reply, fmt.Errorf("a line longer than %d KiB", maxLine>>10)
		case errors.Is(err, io.EOF) && (size > 0 || len(raw) > 0):
			return reply, io.ErrUnexpectedEOF
		case err != nil:
			return reply, err
		}
		if size += len(raw); size > MaxReply {
			return reply, fmt.Errorf("a reply longer than %d MiB", MaxReply>>20)
		}
		line := strings.TrimRight(string(raw), "\r\n")
		if strings.HasPrefix(line, "+") {
			continue
		}
		last, err := reply.add(line, r.indent)
		if last || err != nil {
			return reply, err
		}
	}
}

// add takes one line and tells whether it is the last one.
func (r *Reply) add(line, indent string) (last bool, err error) {
	if text, ok := strings.CutPrefix(line, indent); ok && len(r.Lines) > 0 {
		r.Lines = append(r.Lines, Line{r.Code(), text})
		return false, nil
	}
	if len(line) < 5 || line[4] != '-' && line[4] != ' ' {
		return false, fmt.Errorf("%w: %.80q", errGarbage, line)
	}
	code := 0
	for _, c := range []byte(line[:4]) {
		if c < '0' || c > '9' {
			return false, fmt.Errorf("%w: %.80q", errGarbage, line)
		}
		code = 10*code + int(c-'0')
	}
	r.Lines = append(r.Lines, Line{code, line[5:]})
	return line[4] == ' ', nil
}
