package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

// completionCommand takes the place of cobra's own, which speaks of other systems.
func completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion of commands, flags and names for a shell",
		Long: `Prints a script that makes the shell complete commands, flags, and the names of supervisors that run. The
Debian package has all three in place.`,
		Example: `  zddsupervisor completion bash > /etc/bash_completion.d/zddsupervisor
  zddsupervisor completion zsh > /usr/local/share/zsh/site-functions/_zddsupervisor
  zddsupervisor completion fish > ~/.config/fish/completions/zddsupervisor.fish`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usageError{errors.New("zddsupervisor completion takes one of bash, zsh and fish; see zddsupervisor completion --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch out := cmd.OutOrStdout(); args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			default:
				return cmd.Root().GenFishCompletion(out, true)
			}
		},
	}
}

// completeFlags says what may stand behind the flags of a command that are not paths.
func completeFlags(cmd *cobra.Command) {
	must := func(err error) {
		if err != nil {
			panic("the flag is there: " + err.Error())
		}
	}
	if cmd.Flags().Lookup("config") != nil {
		must(cmd.MarkFlagFilename("config", "toml"))
	}
	// A name says which supervisor is meant, but for those that do not ask one.
	if cmd.Flags().Lookup("control") != nil || cmd.Name() == "doctor" {
		must(cmd.RegisterFlagCompletionFunc("name", completeNames))
		return
	}
	if cmd.Name() != "run" && cmd.Name() != "unit" {
		return
	}
	done := make(map[string]bool)
	for _, key := range config.Keys() {
		flag := key.Flag()
		if flag == "" || done[flag] || key.Kind == config.Path || key.Kind == config.PathList || key.Kind == config.Command {
			continue
		}
		done[flag] = true
		var words []string
		switch {
		case key.Kind == config.Signal:
			words = []string{"SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH"}
		case key.Name == "preset":
			for _, p := range config.Presets() {
				words = append(words, p.Name)
			}
		case key.Kind == config.Text, key.Kind == config.WordList:
			words = quotedWords(key.Doc)
		}
		must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
	}
}

// quotedWords are the values that the explanation of a key names, where it says that it is one of some.
func quotedWords(doc string) (words []string) {
	sentence, _, _ := strings.Cut(doc, ". ")
	parts := strings.Split(sentence, `"`)
	for i := 1; i < len(parts); i += 2 {
		if !strings.ContainsAny(parts[i], " %") {
			words = append(words, parts[i])
		}
	}
	return words
}

// completeNames completes the names of the supervisors that run.
func completeNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, s := range control.FindAll(runtimeBases()) {
		names = append(names, fmt.Sprintf("%s\t%s", s.Name, s.Path))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
