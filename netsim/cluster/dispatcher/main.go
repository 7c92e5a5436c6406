// Dispatcher stands in for hyperkube where the machine has the programs already: it becomes the program beside
// it that it is called as (argv[0]), or else the one that its first argument names.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

func main() {
	own, err := os.Executable()
	for at := 0; err == nil && at < 2 && at < len(os.Args); at++ {
		program := filepath.Join(filepath.Dir(own), filepath.Base(os.Args[at]))
		if program == own {
			continue
		}
		if _, missing := os.Stat(program); missing == nil {
			err = syscall.Exec(program, os.Args[at:], os.Environ())
		}
	}
	fmt.Fprintf(os.Stderr, "dispatcher: no program beside it is called like %q or its first argument (%v)\n", os.Args[0], err)
	os.Exit(2)
}
