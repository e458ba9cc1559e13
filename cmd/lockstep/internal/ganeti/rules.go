package ganeti

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"lockstep/core/config/journal"
	"lockstep/core/filter"
	"lockstep/core/paths"
)

// ownRules describes the filter rules that are in config.extra alone, because Ganeti's programs cannot read them. Without a configuration
// there are none.
func (n *node) ownRules() ([]string, error) {
	var contents [4][]byte
	for i, name := range []string{paths.ConfigPath, paths.TempResPath, paths.ConfigExtraPath, paths.ConfigJournalPath} {
		content, err := os.ReadFile(n.path(dataDir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		contents[i] = content
	}
	if contents[0] == nil {
		return nil, nil
	}
	parsed, _, err := journal.DecodeConfig(contents[0])
	if err != nil {
		return nil, fmt.Errorf("decode config.data: %w", err)
	}
	r, err := journal.Recover(journal.Files{Config: parsed, TempRes: contents[1], Extra: contents[2], Journal: contents[3]}, true)
	if err != nil {
		return nil, err
	}
	var all []filter.Rule
	for _, text := range r.Rules.All() {
		if rule, err := filter.Decode(text); err == nil {
			all = append(all, rule)
		}
	}
	set, _ := filter.NewSet(all) //nolint:errcheck // a rule that applies to no job is named as well
	var texts []string
	for _, rule := range set.Rules() {
		texts = append(texts, fmt.Sprintf("%s (%s)", rule.UUID, rule.Action))
	}
	return texts, nil
}

// nameOwnRules names to the operator the rules that do not apply while Ganeti's daemons run, if there are any.
func (n *node) nameOwnRules() error {
	rules, err := n.ownRules()
	if err == nil && len(rules) > 0 {
		n.say("Ganeti's daemons do not know these filter rules: %s. They stay in %s and apply again after lockstep ganeti swap",
			strings.Join(rules, ", "), n.path(dataDir, paths.ConfigExtraPath))
	}
	return err
}
