package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vouch/agent/internal/config"
)

// chosen gives the checks that --only names, each once, after a look at whether all that was named is there.
func chosen(cfg *config.Config, services, only []string) ([]CheckName, error) {
	if len(services) > 0 && len(only) > 0 {
		return nil, errors.New("say either services, or checks with --only SERVICE/CHECK")
	}
	for _, s := range services {
		if all := servicesOf(cfg); !slices.Contains(all, s) {
			return nil, fmt.Errorf("there is no service %q in %s; there are: %s", s, cfg.File, list(s, all))
		}
	}
	var out []CheckName
	for _, name := range only {
		n, err := find(cfg, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// find gives the check of that name.
func find(cfg *config.Config, name string) (CheckName, error) {
	all := checksOf(cfg, nil)
	words := make([]string, len(all))
	for i, n := range all {
		if words[i] = n.String(); words[i] == name {
			return n, nil
		}
	}
	service, check, ok := strings.Cut(name, "/")
	own := checksOf(cfg, []string{service})
	switch {
	case len(own) == 0:
		return CheckName{}, fmt.Errorf("there is no check %q in %s; there are: %s", name, cfg.File, list(name, words))
	case !ok:
		return CheckName{}, fmt.Errorf("--only takes SERVICE/CHECK (got %q, a service): say which of its checks, or \"vouch check %s\"; there are: %s",
			name, service, list(name, textsOf(own)))
	}
	return CheckName{}, fmt.Errorf("service %s has no check %q in %s; there are: %s", service, check, cfg.File, list(name, textsOf(own)))
}

// list tells which names there are, those most like the wrong one first.
func list(wrong string, names []string) string {
	const most = 8
	names = config.Nearest(wrong, names)
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return strings.Join(names, ", ") + more
}

func servicesOf(cfg *config.Config) []string {
	names := make([]string, len(cfg.Services))
	for i, s := range cfg.Services {
		names[i] = s.Name
	}
	return names
}

// checksOf names the checks of the services, or of all without any.
func checksOf(cfg *config.Config, services []string) (names []CheckName) {
	for _, s := range cfg.Services {
		if len(services) > 0 && !slices.Contains(services, s.Name) {
			continue
		}
		for _, c := range s.Checks {
			names = append(names, CheckName{s.Name, c.Name})
		}
	}
	return names
}

func textsOf(names []CheckName) []string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = n.String()
	}
	return texts
}

// configuredServices completes the names of services that the configuration has, and that were not given yet.
func (a *app) configuredServices(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	cfg, err := config.Load(a.config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(servicesOf(cfg), func(s string) bool { return slices.Contains(args, s) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// configuredChecks completes SERVICE/CHECK.
func (a *app) configuredChecks(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	cfg, err := config.Load(a.config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return textsOf(checksOf(cfg, nil)), cobra.ShellCompDirectiveNoFileComp
}
