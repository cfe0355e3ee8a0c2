package syntax

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Schema is the JSON Schema (draft 7) of workflow files, for editors. It is made from the
// tables that the reader goes by, so an editor allows what the reader allows.
func Schema() []byte {
	root := schemaOfKeys(workflowKeys())
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Workflow of Fairlead"
	root["required"] = []string{"on", "jobs"}
	properties := root["properties"].(map[string]any)
	properties["on"] = onSchema()
	properties["jobs"] = map[string]any{"type": "object", "minProperties": 1,
		"additionalProperties": map[string]any{"$ref": "#/definitions/job"}}
	job := schemaOfKeys(jobKeys())
	steps := job["properties"].(map[string]any)
	steps["steps"] = map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"anyOf": []any{
		map[string]any{"type": "string", "description": "the name of a built-in, like checkout"},
		map[string]any{"$ref": "#/definitions/step"}}}}
	root["definitions"] = map[string]any{"job": job, "step": schemaOfKeys(stepKeys())}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(root); err != nil {
		panic(fmt.Sprintf("encode schema: %v", err)) // only maps of text: can't happen
	}
	return out.Bytes()
}

func schemaOfKeys(keys []key) map[string]any {
	properties := make(map[string]any, len(keys))
	var required []string
	for _, k := range keys {
		properties[k.name] = k.schema()
		if k.required {
			required = append(required, k.name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out
}

func (k key) schema() map[string]any {
	out := k.value.schema(false)
	switch {
	case k.later != "":
		out["description"] = "Not available yet: " + k.later + "."
	case k.ours:
		out["description"] = "Fairlead only."
	}
	return out
}

// schema is that of a value. evaluated: an expression may stand for it.
func (s shape) schema(evaluated bool) map[string]any {
	evaluated = evaluated || s.dynamic
	if s.forms == 0 || s.forms == formAny {
		return map[string]any{}
	}
	var forms []any
	add := func(schema map[string]any) { forms = append(forms, schema) }
	if s.forms&formText != 0 {
		add(s.textSchema())
	}
	if s.forms&formBool != 0 {
		add(map[string]any{"type": "boolean"})
	}
	if s.forms&formNumber != 0 {
		add(map[string]any{"type": "number"})
	}
	if s.forms&formEmpty != 0 {
		add(map[string]any{"type": "null"})
	}
	if s.forms&formList != 0 {
		list := map[string]any{"type": "array", "items": s.items.schema(evaluated)}
		if s.filled {
			list["minItems"] = 1
		}
		add(list)
	}
	if s.forms&formMapping != 0 {
		add(s.mappingSchema(evaluated))
	}
	if evaluated && (s.forms&formText == 0 || s.values != nil) {
		add(map[string]any{"type": "string", "pattern": `\$\{\{`})
	}
	if len(forms) == 1 {
		return forms[0].(map[string]any)
	}
	return map[string]any{"anyOf": forms}
}

func (s shape) textSchema() map[string]any {
	if s.values != nil {
		return map[string]any{"enum": s.values()}
	}
	out := map[string]any{"type": []string{"string", "number", "boolean"}}
	if s.nonEmpty {
		out["minLength"] = 1
	}
	return out
}

func (s shape) mappingSchema(evaluated bool) map[string]any {
	if s.keys == nil {
		return map[string]any{"type": "object", "additionalProperties": s.entries.schema(evaluated)}
	}
	keys := s.keys()
	if evaluated {
		for i := range keys {
			keys[i].value.dynamic = true
		}
	}
	return schemaOfKeys(keys)
}

// onSchema is that of on: an event, a list of them, or a mapping with their settings.
func onSchema() map[string]any {
	var names []string
	properties := make(map[string]any)
	for _, e := range events() {
		names = append(names, e.name)
		properties[e.name] = e.settings().schema(false)
	}
	inputs := mapOf(keysOf("an input", inputKeys).orEmpty()).orEmpty().schema(false)
	dispatch := schemaOfKeys(dispatchKeys())
	dispatch["properties"] = map[string]any{"inputs": inputs}
	properties["workflow_dispatch"] = map[string]any{"anyOf": []any{dispatch, map[string]any{"type": "null"}}}
	return map[string]any{"anyOf": []any{
		map[string]any{"enum": names},
		map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"enum": names}},
		map[string]any{"type": "object", "minProperties": 1, "additionalProperties": false, "properties": properties},
	}}
}
