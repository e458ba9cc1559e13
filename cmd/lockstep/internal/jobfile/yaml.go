package jobfile

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A short YAML file can stand for a huge value, by aliases of aliases, or for one
// without end.
const (
	yamlNodesMax = 1_000_000
	yamlDepthMax = 100
)

func parseYAML(data []byte) (node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return node{}, errorAt(Position{1, 1}, "the file is empty")
	case err != nil:
		return node{}, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return node{}, errorAt(Position{max(1, second.Line), max(1, second.Column)},
			"there is more than one YAML document in the file")
	}
	converter := yamlConverter{left: yamlNodesMax}
	return converter.convert(&document, 0)
}

// yamlConverter turns YAML into the values that JSON has, and refuses the others.
type yamlConverter struct {
	left int // nodes that may still come
}

func (c *yamlConverter) convert(from *yaml.Node, depth int) (node, error) {
	result := node{at: Position{from.Line, from.Column}}
	c.left--
	if depth > yamlDepthMax || c.left < 0 {
		return node{}, errorAt(result.at, "the file is nested too deeply or its aliases make it too large")
	}
	switch from.Kind {
	case yaml.DocumentNode:
		return c.convert(from.Content[0], depth+1)
	case yaml.AliasNode:
		aliased, err := c.convert(from.Alias, depth+1)
		aliased.at = result.at
		return aliased, err
	case yaml.ScalarNode:
		scalar, err := yamlScalar(from, result.at)
		result.scalar = scalar
		return result, err
	case yaml.SequenceNode:
		result.kind = listNode
		for _, element := range from.Content {
			value, err := c.convert(element, depth+1)
			if err != nil {
				return node{}, err
			}
			result.values = append(result.values, value)
		}
		return result, nil
	}
	result.kind = objectNode
	for i := 0; i+1 < len(from.Content); i += 2 {
		if from.Content[i].ShortTag() == "!!merge" {
			return node{}, errorAt(Position{from.Content[i].Line, from.Content[i].Column},
				"merging with << is not supported; write the keys out")
		}
		key, err := c.convert(from.Content[i], depth+1)
		if err != nil {
			return node{}, err
		}
		if err := result.addName(key); err != nil {
			return node{}, err
		}
		value, err := c.convert(from.Content[i+1], depth+1)
		if err != nil {
			return node{}, err
		}
		result.values = append(result.values, value)
	}
	return result, nil
}

func yamlScalar(from *yaml.Node, at Position) (any, error) {
	switch tag := from.ShortTag(); tag {
	case "!!str", "!!timestamp": // JSON has no times: what looks like one is its text
		return from.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool", "!!int", "!!float":
		var value any
		if err := from.Decode(&value); err != nil {
			return nil, errorAt(at, "%q cannot be read as %s", from.Value, tag)
		}
		if number, ok := value.(float64); ok && (math.IsInf(number, 0) || math.IsNaN(number)) {
			return nil, errorAt(at, "%s is not a number that JSON has", from.Value)
		}
		return value, nil
	default:
		return nil, errorAt(at, "a value with the tag %s has no JSON form", tag)
	}
}
