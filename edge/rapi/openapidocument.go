package rapi

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
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
	describeCluster(described["paths"].(map[string]any))
	return json.Marshal(described)
}
