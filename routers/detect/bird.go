package detect

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/command"
)

var birdRow = row{name: "bird", sockets: birdSockets, look: lookBIRD, open: openBIRD}

func birdSockets(o Options) []string {
	both, six := birdPlaces(o)
	return slices.Concat(both, six)
}

// birdPlaces are where BIRD may listen, and where the bird6 of BIRD 1.6 may.
func birdPlaces(o Options) (both, six []string) {
	both, six = bird.Sockets, bird.Sockets6
	if o.BIRD.Socket != "" {
		both = []string{o.BIRD.Socket}
	}
	if o.BIRD.Socket6 != "" {
		six = []string{o.BIRD.Socket6}
	}
	return both, six
}

// lookBIRD reads the greeting at every place. The socket of a bird6 counts where there is no BIRD for
// both families.
func lookBIRD(ctx context.Context, o Options, heard listening) Found {
	f := Found{Daemon: "bird", Programs: installed("bird", "bird6", cmp.Or(o.BIRD.Birdc, "birdc"))}
	both, six := birdPlaces(o)
	paths := slices.Concat(both, six)
	sockets, versions := make([]Socket, len(paths)), make([]string, len(paths))
	abreast(len(paths), func(i int) {
		sockets[i], versions[i] = probe(ctx, paths[i], heard, "start bird (bird6 for BIRD 1.6), or set socket in [router]", askBIRD)
	})
	f.choose(sockets[:len(both)], versions[:len(both)], sockets[len(both):], versions[len(both):])
	if f.Version == "" && mayRun(o.BIRD.Via, f.Sockets) {
		lookByBirdc(ctx, o, &f)
	}
	return f
}

// choose settles which of the sockets are this host's BIRD. With two that are listened on in places for
// the same thing there is more than one.
func (f *Found) choose(both []Socket, versions []string, six []Socket, versions6 []string) {
	live, live6 := liveOnes(both), liveOnes(six)
	f.Sockets = both
	if len(live) > 0 {
		f.Version, f.socket = versions[live[0]], both[live[0]].Path
	}
	if old := strings.HasPrefix(f.Version, "1."); len(live6) > 0 && (old || len(live) == 0) {
		f.Version, f.socket6 = cmp.Or(f.Version, versions6[live6[0]]), six[live6[0]].Path
		f.Sockets = append(f.Sockets[:len(f.Sockets):len(f.Sockets)], six...)
	} else {
		live6 = nil
	}
	f.By = cmp.Or(f.socket, f.socket6)
	f.Running = f.By != ""
	f.Unclear = cmp.Or(severalAt("socket", at(both, live)), severalAt("socket6", at(six, live6)))
}

// severalAt asks for a key where more than one place is listened on.
func severalAt(key string, paths []string) string {
	if len(paths) < 2 {
		return ""
	}
	return fmt.Sprintf("more than one of them runs here: %s; set %s in [router] to the one that is meant", strings.Join(paths, " and "), key)
}

// liveOnes gives the places of the sockets that somebody listens on, in different files: /run/bird.ctl
// may be a link to another.
func liveOnes(sockets []Socket) []int {
	var live []int
	for i, s := range sockets {
		if s.live() && !slices.ContainsFunc(live, func(j int) bool { return sockets[j].file == s.file && s.file != (fileID{}) }) {
			live = append(live, i)
		}
	}
	return live
}

func at(sockets []Socket, places []int) []string {
	var paths []string
	for _, i := range places {
		paths = append(paths, sockets[i].Path)
	}
	return paths
}

// askBIRD reads the greeting, which BIRD gives unasked.
func askBIRD(_ context.Context, conn net.Conn) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(conn, 256)).ReadString('\n')
	if err != nil && line == "" {
		return "", err
	}
	return birdVersion(line)
}

// birdVersion reads a greeting, "0001 BIRD 2.0.12 ready."; birdc prints it without its code.
func birdVersion(line string) (string, error) {
	words := strings.Fields(strings.TrimPrefix(line, "0001 "))
	if len(words) == 3 && words[0] == "BIRD" && words[2] == "ready." {
		return words[1], nil
	}
	return "", fmt.Errorf("it says %q", shorten(line))
}

// lookByBirdc goes the way on which the driver would go too.
func lookByBirdc(ctx context.Context, o Options, f *Found) {
	ctx, cancel := context.WithTimeout(ctx, patience(ctx))
	defer cancel()
	program := cmp.Or(o.BIRD.Birdc, "birdc")
	args := []string{"show", "status"}
	if o.BIRD.Socket != "" {
		args = append([]string{"-s", o.BIRD.Socket}, args...)
	}
	out, err := command.Run(ctx, command.Spec{Path: program, Args: args})
	if err != nil {
		return
	}
	line, _, _ := strings.Cut(string(out.Stdout), "\n")
	if v, err := birdVersion(line); err == nil {
		f.Running, f.Version, f.By = true, v, program
	}
}

// openBIRD drives the BIRD that was found, wherever else an old socket lies.
func openBIRD(o Options, f Found) routers.Router {
	o.BIRD.Socket, o.BIRD.Socket6 = cmp.Or(f.socket, o.BIRD.Socket), cmp.Or(f.socket6, o.BIRD.Socket6)
	return bird.New(o.BIRD)
}
