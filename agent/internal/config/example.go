package config

import (
	_ "embed" // the two files below
	"slices"
)

//go:embed example.toml
var example []byte

//go:embed minimal.toml
var minimal []byte

// Example gives a commented configuration that is valid and covers every key. A line that begins
// with "#" right before a key shows that key with its default, or a value that can stand there.
func Example() []byte { return slices.Clone(example) }

// Minimal gives the shortest useful configuration.
func Minimal() []byte { return slices.Clone(minimal) }
