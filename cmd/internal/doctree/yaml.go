package doctree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A short YAML text can describe a huge value by aliases of aliases, or an infinite one by an
// alias of itself.
const (
	yamlNodesMax = 1_000_000
	yamlDepthMax = 100
)

// ParseYAML reads all documents of a YAML text. mistakes lists what has no JSON form, each an
// *Error; the nodes of these values are Invalid. The documents before a mistake of syntax
// are returned, those behind it are not.
func ParseYAML(data []byte) (documents []Node, mistakes []error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	converter := yamlConverter{left: yamlNodesMax}
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, converter.mistakes
		}
		if err != nil {
			return documents, append(converter.mistakes, yamlSyntaxError(data, err))
		}
		documents = append(documents, converter.convert(document.Content[0], 0))
	}
}

// yamlSyntaxError moves the line from the text of an error, "yaml: line 3: ...", to its position. The parser names no line for a mistake of
// the first line, an alias without its anchor, and characters that no text has.
func yamlSyntaxError(data []byte, err error) error {
	result := &Error{Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	if _, scanErr := fmt.Sscanf(result.Text, "line %d:", &result.At.Line); scanErr == nil {
		_, result.Text, _ = strings.Cut(result.Text, ": ")
		if slices.Contains(grammarMistakes, result.Text) { // the line is counted from 0, and may be the end of the text
			result.At.Line = min(result.At.Line, bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n"))) + 1
		}
		return result
	}
	result.At = Position{Line: 1}
	var anchor string
	switch _, scanErr := fmt.Sscanf(result.Text, "unknown anchor '%s", &anchor); {
	case scanErr == nil:
		alias := regexp.MustCompile(`(?:^|[\s\[{,:-])\*` + regexp.QuoteMeta(strings.TrimSuffix(anchor, "'")) + `(?:[\s\]},]|$)`)
		if found := alias.FindIndex(data); found != nil {
			result.At = positionIn(data, found[0]+bytes.IndexByte(data[found[0]:], '*'))
		}
	case strings.Contains(result.Text, "control characters"), strings.Contains(result.Text, "UTF-8"):
		if at := bytes.IndexFunc(data, notOfText); at >= 0 {
			result.At = positionIn(data, at)
		}
	}
	return result
}

// grammarMistakes are the mistakes that the parser finds in the order of tokens. It finds all others in characters.
var grammarMistakes = []string{
	"did not find expected <document start>", "did not find expected node content", "did not find expected '-' indicator",
	"did not find expected key", "did not find expected ',' or ']'", "did not find expected ',' or '}'", "found undefined tag handle",
	"found duplicate %YAML directive", "found incompatible YAML document", "found duplicate %TAG directive",
}

// notOfText reports whether a YAML text cannot have a character; utf8.RuneError is what is not UTF-8.
func notOfText(char rune) bool {
	return char == utf8.RuneError || unicode.IsControl(char) && !strings.ContainsRune("\t\n\r\u0085", char)
}

// positionIn is the position of the character at an offset.
func positionIn(data []byte, offset int) Position {
	before := data[:offset]
	return Position{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1}
}

// yamlConverter turns YAML values into JSON values.
type yamlConverter struct {
	left     int // nodes that may still come; negative: a limit is passed and reported
	mistakes []error
}

// invalid reports a mistake and returns the node of its value.
func (c *yamlConverter) invalid(from *yaml.Node, format string, args ...any) Node {
	at := Position{from.Line, from.Column}
	c.mistakes = append(c.mistakes, Errorf(at, format, args...))
	return Node{Kind: Invalid, At: at}
}

func (c *yamlConverter) convert(from *yaml.Node, depth int) Node {
	result := Node{At: Position{from.Line, from.Column}, Kind: Invalid}
	switch c.left--; {
	case c.left < -1:
		return result
	case c.left == -1, depth > yamlDepthMax:
		c.left = -1
		return c.invalid(from, "the file is nested too deeply or its aliases make it too large")
	}
	switch from.Kind {
	case yaml.AliasNode:
		aliased := c.convert(from.Alias, depth+1)
		aliased.At = result.At
		return aliased
	case yaml.ScalarNode:
		return c.scalar(from)
	case yaml.SequenceNode:
		result.Kind = List
		for _, element := range from.Content {
			result.Values = append(result.Values, c.convert(element, depth+1))
		}
	case yaml.MappingNode:
		result.Kind = Object
		for i := 0; i+1 < len(from.Content); i += 2 {
			if from.Content[i].ShortTag() == "!!merge" {
				c.invalid(from.Content[i], "merging with << is not supported; write the keys out")
				continue
			}
			key, value := c.convert(from.Content[i], depth+1), c.convert(from.Content[i+1], depth+1)
			if err := result.addKey(key); err == nil {
				result.Values = append(result.Values, value)
			} else if key.Kind != Invalid {
				c.mistakes = append(c.mistakes, err)
			}
		}
	case yaml.DocumentNode: // only the root is one
	}
	return result
}

// scalar returns a value without parts. It keeps the digits of a number that JSON spells alike. A value that JSON does not have is
// invalid, which is noted.
func (c *yamlConverter) scalar(from *yaml.Node) Node {
	result := Node{At: Position{from.Line, from.Column}, Text: from.Value}
	switch tag := from.ShortTag(); tag {
	case "!!str", "!!timestamp": // JSON has no times: a timestamp stays a string
		result.Scalar = from.Value
	case "!!null":
	case "!!bool", "!!int", "!!float":
		if tag != "!!bool" && json.Valid([]byte(from.Value)) {
			result.Scalar = json.Number(from.Value)
			return result
		}
		if err := from.Decode(&result.Scalar); err != nil {
			return c.invalid(from, "%q cannot be read as %s", from.Value, tag)
		}
		if number, ok := result.Scalar.(float64); ok && (math.IsInf(number, 0) || math.IsNaN(number)) {
			return c.invalid(from, "%s is not a number that JSON has", from.Value)
		}
	default:
		return c.invalid(from, "a value with the tag %s has no JSON form", tag)
	}
	return result
}
