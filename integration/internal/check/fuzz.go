package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// fuzzInputs is how many inputs each target gets: a few seconds' worth. A number, unlike a time, cannot end in the middle of one.
const fuzzInputs = "20000x"

// target is a fuzz test.
type target struct{ dir, name string }

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// fuzz runs every fuzz target of the module for a short while.
func fuzz(ctx context.Context, r *report) {
	targets, err := fuzzTargets(".")
	if err != nil {
		r.fail("fuzzing", err.Error())
		return
	}
	for _, t := range targets {
		name := fmt.Sprintf("%s %s (fuzzed)", t.dir, t.name)
		out, err := command(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+fuzzInputs, "-timeout=5m", "./"+t.dir)
		if err != nil {
			fmt.Println(out)
			r.fail(name, err.Error())
			continue
		}
		fmt.Printf("ok      %s\n", name)
		r.pass(name)
	}
}

// fuzzTargets finds the fuzz targets below top.
func fuzzTargets(top string) ([]target, error) {
	var targets []target
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
			targets = append(targets, target{dir, string(m[1])})
		}
		return nil
	})
	return targets, err
}
