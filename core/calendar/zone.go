package calendar

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the zone data for a machine that has none
)

// LoadZone returns a zone by its name in the tz database. The data is the machine's, or that of the Go that has built the program if
// the machine does not have the zone. A name stands for the same zone on each machine, so "Local" is refused.
func LoadZone(name string) (*time.Location, error) {
	const write = "write a name of the tz database, such as Europe/Berlin or UTC"
	switch first, _, _ := strings.Cut(name, "/"); {
	case name == "":
		return nil, fmt.Errorf("the name of the zone is empty: %s", write)
	case name == "Local" || name == "localtime" || name == "posixrules":
		return nil, fmt.Errorf("%s is another zone on each machine: %s", name, write)
	case first == "posix" || first == "right": // of the same clocks; right counts leap seconds, which is not the time of the system
		return nil, fmt.Errorf("zone %q: write the name without %s/", name, first)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q is unknown: %s (names have capitals; an abbreviation such as CEST is none)", name, write)
	}
	return zone, nil
}
