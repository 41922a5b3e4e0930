package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vouch/routers/bird/include"
)

// What systemd names for a unit that has such directories (systemd.exec(5)). The one is empty after a boot and
// stays over a restart, the other outlives both.
const (
	runtimeDirectory = "RUNTIME_DIRECTORY"
	stateDirectory   = "STATE_DIRECTORY"
)

// startedFile, in the unit's runtime directory, says that an agent has run since the boot.
const startedFile = "started"

// replacedFile, in the same place, says that the agent is stopped only for its successor to take over at once, as
// by an upgrade of the package: on_stop says nothing about that. One older than replacedMax was left behind.
const (
	replacedFile = "replaced"
	replacedMax  = time.Minute
)

// noteStarted leaves startedFile. Without a unit there is nothing to note.
func noteStarted() {
	if dir := os.Getenv(runtimeDirectory); dir != "" {
		_ = os.WriteFile(filepath.Join(dir, startedFile), nil, 0o644) // what it is for is said by its absence
	}
}

// replaced says whether replacedFile is there, and takes it away.
func replaced() bool {
	dir := os.Getenv(runtimeDirectory)
	if dir == "" {
		return false
	}
	path := filepath.Join(dir, replacedFile)
	st, err := os.Lstat(path)
	return err == nil && os.Remove(path) == nil && time.Since(st.ModTime()) < replacedMax
}

// refused is what is left to do about a configuration that is not valid. At boot the unit comes before BIRD, which would
// announce what vouch's files held when the machine went down, with nobody to check it: everything in those files of
// the unit's state directory is put off. After that the agent has run in this boot, and what is announced stays. It
// gives a line for each file.
func refused() (told []string) {
	state, runtime := os.Getenv(stateDirectory), os.Getenv(runtimeDirectory)
	if state == "" || runtime == "" {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(runtime, startedFile)); err == nil {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(state, "*"))
	for _, path := range files {
		if changed, err := putOff(path); err != nil {
			told = append(told, fmt.Sprintf("%s may announce what nobody has checked: %v", path, err))
		} else if changed {
			told = append(told, path+": nothing was checked since the boot, so everything in it is put off")
		}
	}
	return told
}

// putOff withdraws everything in a file that BIRD includes, when it is vouch's.
func putOff(path string) (changed bool, err error) {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return false, nil
	}
	text, err := include.Read(path)
	if err != nil {
		return false, err
	}
	if !include.Ours(text) {
		return false, nil
	}
	off, err := include.Off(text)
	if err != nil || bytes.Equal(off, text) {
		return false, err
	}
	return true, include.Write(path, off)
}
