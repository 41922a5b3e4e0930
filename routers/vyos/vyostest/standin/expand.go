package main

import (
	"fmt"
	"os"
	"strings"

	"vouch/routers/vyos/vyostest/tree"
)

// expand completes the words of a command of vbash and writes them to descriptor 3. Where it cannot, it says
// why as vbash does: some of it on one stream and some on the other.
func expand(c *call) int {
	c.silent = true
	if len(c.args) == 0 {
		return 2
	}
	verb, names := c.args[0], c.args[1:]
	full, bad, might := tree.Expand(names)
	if bad < 0 {
		fmt.Fprint(os.NewFile(3, "words"), tree.Quote(full))
		return 0
	}
	at := "Configuration path: " + strings.Join(append(full, "["+names[bad]+"]"), " ")
	failed := strings.ToUpper(verb[:1]) + verb[1:] + " failed"
	if len(might) == 0 {
		fmt.Fprintf(os.Stderr, "\n  %s is not valid\n  %s\n\n", at, failed)
		return 1
	}
	fmt.Fprintf(os.Stderr, "\n  %s is ambiguous\n", at)
	fmt.Println("\n  Possible completions:")
	for _, m := range might {
		fmt.Println("   ", m)
	}
	fmt.Printf("\n  %s\n\n", failed)
	return 1
}
