// Dispatcher stands in for hyperkube where the machine has the programs already: it becomes the program beside
// it that its first argument names.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

func main() {
	own, err := os.Executable()
	if err == nil && len(os.Args) > 1 {
		program := filepath.Join(filepath.Dir(own), filepath.Base(os.Args[1]))
		err = syscall.Exec(program, os.Args[1:], os.Environ())
	}
	fmt.Fprintf(os.Stderr, "dispatcher: name a program beside this one (%v)\n", err)
	os.Exit(2)
}
