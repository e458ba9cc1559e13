package sim

import (
	"bytes"
	"fmt"
	"strings"

	"lockstep/core/paths"
)

// checkSettled: when the files of a node do not need its log any longer, a power loss changes none of them.
type checkSettled struct{}

func (checkSettled) Name() string { return "files without a log are durable" }

func (checkSettled) See(_ *World, event any) error {
	settled, is := event.(filesSettled)
	if !is {
		return nil
	}
	disk := settled.node.disk
	for _, dir := range disk.Directories() {
		if dir != paths.QueueDir && !strings.HasPrefix(dir, paths.QueueDir+"/") {
			continue
		}
		for _, base := range disk.Names(dir) {
			name := dir + "/" + base
			file := disk.Find(name)
			if file == nil || strings.HasSuffix(base, ".tmp") {
				continue
			}
			if content, certain := disk.Surviving(name); !certain || !bytes.Equal(content, file.Data) {
				return fmt.Errorf("%s has stopped in order, and a power loss could change %s", settled.node.name, name)
			}
		}
	}
	return nil
}
