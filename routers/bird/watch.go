package bird

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// fileEvents are those of a directory by which a file in it is put there, written or taken away, or by which
	// the directory itself goes.
	fileEvents = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	// wayEvents are those of a directory or link on the way to it by which another may be in its place.
	wayEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_DONT_FOLLOW
	// filePause is between two tries to watch what cannot be watched, such as a directory that is not there.
	filePause = time.Second
)

// watch wakes, until ctx ends, when an include file has become another than vouch last wrote or found it: whoever did
// that may have BIRD read it at any time. Where the file cannot be watched, it is seen by polling.
func (b byInclude) watch(ctx context.Context, wake func()) {
	var paths []string
	for _, path := range []string{b.options.Include, b.options.Include6} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	for ctx.Err() == nil {
		if err := awaitFiles(ctx, paths, func() {
			for _, path := range paths {
				if !b.memo.knows(path) {
					wake()
					return
				}
			}
		}); err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(filePause):
		}
	}
}

// awaitFiles watches the directories of files and of what they are links to, and whatever leads there, calls watched,
// and returns after the next thing that happens there, or when ctx ends. What happens between two calls is seen by what
// watched does.
func awaitFiles(ctx context.Context, paths []string, watched func()) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	for _, path := range paths {
		if err := watchWay(fd, path); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })()
	watched()
	_, err = events.Read(make([]byte, 4<<10))
	return err
}

// watchWay follows a path as the kernel does, from the root down. Each directory and link is watched before it is
// followed, so that one which is put in its place meanwhile is an event.
func watchWay(fd int, path string) error {
	const mostLinks = 40 // as many as the kernel follows
	dir, links := "/", 0
	for rest := namesOf(path); len(rest) > 0; {
		next := filepath.Join(dir, rest[0])
		rest = rest[1:]
		way, mask := next, uint32(wayEvents)
		if len(rest) == 0 {
			way, mask = dir, fileEvents
		}
		_, err := unix.InotifyAddWatch(fd, way, mask|unix.IN_MASK_ADD)
		unreadable := errors.Is(err, unix.EACCES) && len(rest) > 0 // and yet it may be passed through
		if err != nil && !unreadable {
			return err
		}
		to, err := os.Readlink(next)
		switch {
		case err != nil:
			dir = next
			continue
		case links == mostLinks:
			return unix.ELOOP
		case filepath.IsAbs(to):
			dir = "/"
		}
		links++
		rest = append(namesOf(to), rest...)
	}
	return nil
}

// namesOf gives those that a path is made of.
func namesOf(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}
