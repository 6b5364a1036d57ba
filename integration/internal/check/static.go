package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// staticcheckVersion is the newest one that the oldest supported Go compiles.
const staticcheckVersion = "v0.6.1"

// command runs a program and returns all that it wrote.
func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// check makes one pass or fail of a program that writes what it finds.
func (r *report) check(name, found string, err error) {
	if err == nil && found == "" {
		r.pass(name)
		return
	}
	fmt.Println(found)
	why := ""
	if err != nil {
		why = err.Error()
	}
	r.fail(name, why)
}

func gofmt(ctx context.Context, r *report) {
	found, err := command(ctx, "gofmt", "-l", ".")
	r.check("gofmt", found, err)
}

func vet(ctx context.Context, r *report) {
	found, err := command(ctx, "go", "vet", "./...")
	if err == nil {
		found = "" // what is said about downloads
	}
	r.check("vet", found, err)
}

func staticcheck(ctx context.Context, r *report) {
	dir, err := os.MkdirTemp("", "zdd-staticcheck-")
	if err != nil {
		r.fail("staticcheck", err.Error())
		return
	}
	defer os.RemoveAll(dir)
	install := exec.CommandContext(ctx, "go", "install", "honnef.co/go/tools/cmd/staticcheck@"+staticcheckVersion)
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		r.skip("staticcheck", "cannot be installed: "+lines[len(lines)-1])
		return
	}
	found, err := command(ctx, filepath.Join(dir, "staticcheck"), "./...")
	r.check("staticcheck", found, err)
}
