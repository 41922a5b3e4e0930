// Command vouch announces a service's anycast addresses only while the service answers.
package main

import (
	"os"

	"vouch/agent"
	"vouch/agent/internal/cli"
)

// version is set by the linker.
var version = "devel"

func main() {
	os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr, agent.Commands(version)))
}
