package words

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// sizeParts are the number and the unit of a size. sizeUnits are the units, in lower case.
var (
	sizeParts = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)
	sizeUnits = map[string]float64{
		"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15,
		"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50,
		"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50,
	}
)

// parseSize reads a number of bytes that somebody has typed, with or without a unit.
func parseSize(text string) (int64, error) {
	invalid := fmt.Errorf("%q is not a size: write a number of bytes, or one with a unit, like 64kB or 1MB", text)
	parts := sizeParts.FindStringSubmatch(text)
	if parts == nil {
		return 0, invalid
	}
	unit, known := sizeUnits[strings.ToLower(parts[2])]
	number, err := strconv.ParseFloat(parts[1], 64)
	if !known || err != nil || number*unit >= math.MaxInt64 {
		return 0, invalid
	}
	return int64(number * unit), nil
}

// sizeText is a number of bytes in the largest unit in which it is whole.
func sizeText(size int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if size != 0 && size%unit.bytes == 0 {
			return strconv.FormatInt(size/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(size, 10)
}
