package rapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockstep/core/access"
)

// openapiYAML describes every resource but those of clusterResources, whose table describes them; tests hold the document and the resources
// together.
//
//go:embed openapi.yaml
var openapiYAML []byte

// openAPIDocument is the OpenAPI description in JSON.
func openAPIDocument() ([]byte, error) {
	var described map[string]any
	if err := yaml.Unmarshal(openapiYAML, &described); err != nil {
		return nil, fmt.Errorf("convert openapi.yaml: %w", err)
	}
	paths, _ := described["paths"].(object)
	describeCluster(paths)
	describeNeeds(paths)
	return json.Marshal(described)
}

// describeNeeds adds to the description of each operation what it needs.
func describeNeeds(paths object) {
	for path, item := range paths {
		for method, described := range item.(object) {
			operation, is := described.(object)
			if !is {
				continue // the parameters of all operations of the path
			}
			needs := "It needs: " + access.RapiRoute(strings.ToUpper(method)+" "+path).String() + "."
			if text, has := operation["description"].(string); has {
				needs = strings.TrimSuffix(text, "\n") + "\n\n" + needs
			}
			operation["description"] = needs
		}
	}
}
