package syntax

import "strings"

// event is one event of the language with what it can be narrowed by.
type event struct {
	name    string
	types   string // activity types, separated by spaces
	filters string // other keys of its settings, separated by spaces
}

// events are those of the language, in the order of their names.
func events() []event {
	const (
		basic    = "created edited deleted"
		requests = "assigned unassigned labeled unlabeled opened edited closed reopened synchronize converted_to_draft " +
			"locked unlocked enqueued dequeued milestoned demilestoned ready_for_review review_requested " +
			"review_request_removed auto_merge_enabled auto_merge_disabled stacked"
		branches = "branches branches-ignore"
		paths    = " paths paths-ignore"
	)
	return []event{
		{"branch_protection_rule", basic, ""},
		{"check_run", "completed created rerequested requested_action", ""},
		{"check_suite", "completed", ""},
		{"create", "", ""},
		{"delete", "", ""},
		{"deployment", "", ""},
		{"deployment_status", "", ""},
		{"discussion", basic + " transferred pinned unpinned labeled unlabeled locked unlocked category_changed " +
			"answered unanswered", ""},
		{"discussion_comment", basic, ""},
		{"fork", "", ""},
		{"gollum", "", ""},
		{"image_version", "created ready deleted", "names versions"},
		{"issue_comment", basic, ""},
		{"issues", "opened edited deleted transferred pinned unpinned closed reopened assigned unassigned labeled " +
			"unlabeled locked unlocked milestoned demilestoned field_added field_removed typed untyped", ""},
		{"label", basic, ""},
		{"merge_group", "checks_requested", branches},
		{"milestone", "created closed opened edited deleted", ""},
		{"page_build", "", ""},
		{"project", "created closed reopened edited deleted", ""},
		{"project_card", "created moved converted edited deleted", ""},
		{"project_column", "created updated moved deleted", ""},
		{"public", "", ""},
		{"pull_request", requests, branches + paths},
		{"pull_request_comment", basic, ""},
		{"pull_request_review", "submitted edited dismissed", ""},
		{"pull_request_review_comment", basic, ""},
		{"pull_request_target", requests, branches + paths},
		{"push", "", branches + " tags tags-ignore" + paths},
		{"registry_package", "published updated", ""},
		{"release", "published unpublished created edited deleted prereleased released", ""},
		{"repository_dispatch", "*", ""},
		{"schedule", "", ""},
		{"status", "", ""},
		{"watch", "started", ""},
		{"workflow_call", "", ""},
		{"workflow_dispatch", "", ""},
		{"workflow_run", "requested completed in_progress", branches + " workflows"},
	}
}

// sent are the events that can start a workflow in this release.
func sent() []string { return []string{"push", "schedule", "workflow_dispatch"} }

// keys are the settings that the event has.
func (e event) keys() []key {
	switch e.name {
	case "workflow_dispatch":
		return dispatchKeys()
	case "workflow_call":
		return callableKeys()
	}
	var out []key
	if e.types == "*" {
		out = append(out, key{name: "types", value: listOf(word())})
	} else if e.types != "" {
		types := strings.Fields(e.types)
		item := oneOf(types...)
		out = append(out, key{name: "types", value: item.or(listOf(item))})
	}
	for _, name := range strings.Fields(e.filters) {
		k := key{name: name, value: wordOrList()}
		k.value.filled = true
		out = append(out, k)
	}
	return out
}

// settings is the shape of what stands below the event.
func (e event) settings() shape {
	if e.name == "schedule" {
		times := listOf(keysOf("an entry of schedule", scheduleKeys))
		times.filled = true
		return times
	}
	return keysOf("the event "+e.name, e.keys).orEmpty()
}

func scheduleKeys() []key {
	return []key{{name: "cron", value: word(), required: true, hint: "write the times, like cron: '30 5 * * 1-5'"},
		{name: "timezone", value: word()}, {name: "catch-up", value: oneOf("latest", "all", "none"), ours: true}}
}

func dispatchKeys() []key { return []key{{name: "inputs", value: mapOf(shape{}).orEmpty()}} }

func inputKeys() []key {
	return []key{{name: "description", value: text()}, {name: "required", value: truth()},
		{name: "default", value: text()},
		{name: "type", value: oneOf("string", "boolean", "number", "choice", "environment")},
		{name: "options", value: listOf(text())}}
}

// callableKeys are the settings of workflow_call.
func callableKeys() []key {
	return []key{
		{name: "inputs", value: mapOf(keysOf("an input", calledInputKeys)).orEmpty()},
		{name: "secrets", value: mapOf(keysOf("a secret", calledSecretKeys).orEmpty()).orEmpty()},
		{name: "outputs", value: mapOf(keysOf("an output", calledOutputKeys)).orEmpty()},
	}
}

func calledInputKeys() []key {
	return []key{{name: "description", value: text()}, {name: "required", value: truth()},
		{name: "default", value: text().evaluated()},
		{name: "type", value: oneOf("string", "boolean", "number"), required: true, hint: "add type: string"}}
}

func calledSecretKeys() []key {
	return []key{{name: "description", value: text()}, {name: "required", value: truth()}}
}

func calledOutputKeys() []key {
	return []key{{name: "description", value: text()},
		{name: "value", value: text().evaluated(), required: true, hint: "write the value, like ${{ jobs.build.outputs.x }}"}}
}
