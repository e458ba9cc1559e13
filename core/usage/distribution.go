package usage

import (
	"maps"
	"math"
	"slices"
)

// growth is the ratio of the bounds of a class of values. A value is at most 1 % from the middle of its class.
const growth = 1.02

// Quantiles are values of a distribution: that which half of the values, and 90 % of them, do not exceed, to 1 %, and the largest one.
type Quantiles struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Max    float64 `json:"max"`
}

// distribution counts values of at least 0 in classes, of which there are at most about 3,000, whatever the number of values.
type distribution struct {
	classes  map[int16]int // numbers of values; the class c is above growth^(c-1) and up to growth^c
	zeros    int           // values below 1
	count    int
	min, max float64
}

func (d *distribution) add(value float64) {
	if d.count == 0 {
		d.min, d.max = value, value
	}
	d.count++
	d.min, d.max = min(d.min, value), max(d.max, value)
	if value < 1 {
		d.zeros++
		return
	}
	if d.classes == nil {
		d.classes = map[int16]int{}
	}
	d.classes[int16(math.Ceil(math.Log(value)/math.Log(growth)))]++
}

func (d *distribution) merge(other distribution) {
	if other.count == 0 {
		return
	}
	if d.count == 0 {
		d.min, d.max = other.min, other.max
	}
	d.min, d.max = min(d.min, other.min), max(d.max, other.max)
	d.count += other.count
	d.zeros += other.zeros
	if d.classes == nil {
		d.classes = map[int16]int{}
	}
	for class, n := range other.classes {
		d.classes[class] += n
	}
}

// quantiles are those of the values in a larger unit of so many of theirs; nil: there are no values.
func (d *distribution) quantiles(unit float64) *Quantiles {
	if d.count == 0 {
		return nil
	}
	return &Quantiles{Median: d.quantile(0.5) / unit, P90: d.quantile(0.9) / unit, Max: d.max / unit}
}

// quantile is the smallest value that at least this share of the values does not exceed.
func (d *distribution) quantile(share float64) float64 {
	rank := int(math.Ceil(share * float64(d.count)))
	seen := d.zeros
	if seen >= rank {
		return d.min
	}
	for _, class := range slices.Sorted(maps.Keys(d.classes)) {
		if seen += d.classes[class]; seen >= rank {
			middle := 2 * math.Pow(growth, float64(class)) / (growth + 1)
			return min(max(middle, d.min), d.max)
		}
	}
	return d.max
}
