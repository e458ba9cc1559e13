package query

import (
	"lockstep/core/config"
	"lockstep/core/natural"
)

// Filters are the fields of filter rules (queue.md 2.7), which are objects of the configuration.
var Filters = newTable("", []Field[config.Object]{
	ruleField("action", "Action", "What the rule does with the jobs that it applies to"),
	ruleField("predicates", "Predicates", "What a job must be like for the rule to apply"),
	ruleField("priority", "Priority", "Place of the rule in the chain, the smallest first"),
	ruleField("reason_trail", "ReasonTrail", "Who made the rule, and why"),
	ruleField("uuid", "UUID", "Name of the rule"),
	ruleField("watermark", "Watermark", "Highest job number in use when the rule was made"),
})

func ruleField(name, title, doc string) Field[config.Object] {
	return field(name, title, Other, doc, func(rule *config.Object) Value {
		raw, there := (*rule)[name]
		if !there {
			return unavailable()
		}
		return normal(raw)
	})
}

// CompareRules orders rules as the answer to a query does, which is not the order of evaluation.
func CompareRules(a, b config.Object) int {
	return natural.Compare(a.Text("uuid"), b.Text("uuid"))
}
