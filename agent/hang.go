//go:build !hang

package agent

// mayHang gives beat: only a program built with the tag hang can be made to hang.
func mayHang(beat func()) func() { return beat }
