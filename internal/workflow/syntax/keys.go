package syntax

import "sync"

// key is one key of the language at one place. A key with a later text is known, but
// not part of this release; the text says what to do instead.
type key struct {
	name     string
	value    shape
	required bool
	hint     string // for the report that a required key is missing
	later    string
	code     Code // for a later key
	ours     bool // Fairlead's own: the workflow runs nowhere else
	unmet    Code // not "": the plan records the key, and this requirement says that it has no effect
}

func workflowKeys() []key {
	return []key{
		{name: "name", value: text()}, {name: "description", value: text()},
		{name: "run-name", value: text().evaluated()},
		{name: "on"},
		{name: "env", value: envShape()},
		{name: "permissions", value: permissionsShape()},
		{name: "defaults", value: defaultsShape()},
		{name: "concurrency", value: text().or(keysOf("concurrency", concurrencyKeys)).evaluated()},
		{name: "jobs"},
	}
}

func jobKeys() []key { return keysOfJob() }

// The largest tables are made once; nobody changes them.
var (
	keysOfJob   = sync.OnceValue(makeJobKeys)
	keysOfStep  = sync.OnceValue(makeStepKeys)
	keysOfScope = sync.OnceValue(makeScopeKeys)
)

func makeJobKeys() []key {
	return []key{
		{name: "name", value: text().evaluated()}, {name: "needs", value: wordOrList()},
		{name: "if", value: conditionShape()}, {name: "runs-on", value: runsOnShape()},
		{name: "env", value: envShape()}, {name: "steps"},
		{name: "timeout-minutes", value: number().evaluated()},
		{name: "continue-on-error", value: truth().evaluated()},
		{name: "retry", value: keysOf("retry", retryKeys), ours: true},
		{name: "effects", value: oneOf("external"), ours: true},
		{name: "permissions", value: permissionsShape()},
		{name: "defaults", value: keysOf("defaults", jobDefaultsKeys)},
		{name: "environment", value: environmentShape()},
		{name: "concurrency", value: concurrencyShape()},
		{name: "outputs"}, {name: "strategy"},
		{name: "container", value: text().or(keysOf("container", containerKeys)).evaluated()},
		{name: "services", value: mapOf(word().or(keysOf("a service", serviceKeys))).evaluated()},
		{name: "uses", value: word()},
		{name: "with", value: mapOf(text()).evaluated()},
		{name: "secrets", value: oneOf("inherit").or(mapOf(text())).evaluated()},
		{name: "snapshot", value: word().or(keysOf("snapshot", snapshotKeys)), unmet: CodeNotRunKey},
		{name: "cancel-timeout-minutes", value: number().evaluated(), unmet: CodeNotRunKey},
		{name: "artifacts", value: mapOf(word()), ours: true, unmet: CodeNotRunKey},
		{name: "resources", value: keysOf("resources", resourceKeys), ours: true, unmet: CodeNotRunKey},
		{name: "network", value: oneOf("none").or(keysOf("network", networkKeys)), ours: true,
			unmet: CodeNotRunKey},
		{name: "fallback", value: keysOf("fallback", fallbackKeys), ours: true, unmet: CodeNotRunKey},
		{name: "tests", value: keysOf("tests", testsKeys), ours: true, unmet: CodeNotRunKey},
	}
}

// callKeys are the keys that a job may have beside uses.
func callKeys() []string {
	return []string{"name", "uses", "with", "secrets", "needs", "if", "permissions", "concurrency", "strategy"}
}

func stepKeys() []key { return keysOfStep() }

func makeStepKeys() []key {
	return []key{
		{name: "id", value: word()}, {name: "name", value: text().evaluated()},
		{name: "if", value: conditionShape()},
		{name: "run", value: text().evaluated()}, {name: "uses", value: word()},
		{name: "with", value: mapOf(text()).evaluated().orEmpty()},
		{name: "env", value: envShape()}, {name: "shell", value: word().evaluated()},
		{name: "working-directory", value: text().evaluated()},
		{name: "continue-on-error", value: truth().evaluated()},
		{name: "timeout-minutes", value: number().evaluated()},
		{name: "cleanup", value: truth(), ours: true},
		{name: "deploy", value: word(), ours: true},
		{name: "tests", value: keysOf("tests", testsKeys), ours: true, unmet: CodeNotRunKey},
		{name: "idempotency-key", value: text().evaluated(), ours: true, unmet: CodeNotRunKey},
		{name: "background", value: truth(), unmet: CodeNotRunBackground},
		{name: "wait", value: wordOrList(), unmet: CodeNotRunBackground},
		{name: "wait-all", value: truth().orEmpty(), unmet: CodeNotRunBackground},
		{name: "cancel", value: word(), unmet: CodeNotRunBackground},
		{name: "parallel", value: listOf(anything()), unmet: CodeNotRunBackground},
	}
}

// stepActions are the keys that say what a step does; a step has exactly one of them.
func stepActions() []string {
	return []string{"run", "uses", "deploy", "wait", "wait-all", "cancel", "parallel"}
}

// conditionShape is that of if. Its text is an expression with or without ${{ }}.
func conditionShape() shape { return text().evaluated() }

// envShape is that of env. That it may be empty (all entries commented out is common and
// harmless) is our leniency.
func envShape() shape { return mapOf(text()).evaluated().orEmpty() }

func runsOnShape() shape {
	labels := wordOrList()
	labels.filled = true
	return labels.or(keysOf("runs-on", runnerKeys)).evaluated()
}

// runnerKeys are the keys of runs-on in its long form.
func runnerKeys() []key {
	labels := wordOrList()
	return []key{
		{name: "labels", value: labels},
		{name: "group", value: word()},
		{name: "fallback", value: keysOf("fallback", fallbackKeys), ours: true},
	}
}

func fallbackKeys() []key {
	return []key{{name: "after", value: word(), required: true}, {name: "runs-on", value: wordOrList(), required: true}}
}

func concurrencyShape() shape {
	return word().or(keysOf("concurrency", concurrencyKeys)).evaluated()
}

func concurrencyKeys() []key {
	return []key{
		{name: "group", value: word(), required: true, hint: "runs with the same group wait for each other"},
		{name: "cancel-in-progress", value: truth()},
		{name: "queue", value: oneOf("single", "max")},
	}
}

func environmentShape() shape {
	return text().or(keysOf("environment", environmentKeys)).evaluated()
}

func environmentKeys() []key {
	return []key{{name: "name", value: text(), required: true}, {name: "url", value: text()},
		{name: "deployment", value: truth()}}
}

func defaultsShape() shape { return keysOf("defaults", defaultsKeys) }

func defaultsKeys() []key {
	return []key{{name: "run", value: keysOf("defaults.run", runDefaultsKeys)}}
}

// jobDefaultsKeys are those of a job, where expressions may stand.
func jobDefaultsKeys() []key {
	return []key{{name: "run", value: keysOf("defaults.run", runDefaultsKeys).evaluated()}}
}

func runDefaultsKeys() []key {
	return []key{{name: "shell", value: word()}, {name: "working-directory", value: word()}}
}

func containerKeys() []key {
	return []key{
		{name: "image", value: word(), required: true, hint: "name an image, like image: alpine:3.20"},
		{name: "credentials", value: keysOf("credentials", credentialsKeys)},
		{name: "env", value: mapOf(text())}, {name: "ports", value: listOf(word())},
		{name: "volumes", value: listOf(word())}, {name: "options", value: text()},
	}
}

func serviceKeys() []key {
	return append(containerKeys(), key{name: "entrypoint", value: text()}, key{name: "command", value: text()})
}

func credentialsKeys() []key {
	return []key{{name: "username", value: word()}, {name: "password", value: word()}}
}

func snapshotKeys() []key {
	return []key{{name: "image-name", value: word(), required: true}, {name: "if", value: conditionShape()},
		{name: "version", value: word()}}
}

func retryKeys() []key {
	return []key{{name: "max", value: number()}, {name: "on", value: wordOrList()}, {name: "backoff", value: word()}}
}

func resourceKeys() []key {
	size := word()
	return []key{{name: "cpu", value: size}, {name: "memory", value: size}, {name: "disk", value: size},
		{name: "gpu", value: size}}
}

func networkKeys() []key { return []key{{name: "egress", value: wordOrList(), required: true}} }

func testsKeys() []key { return []key{{name: "junit", value: wordOrList(), required: true}} }

// permissionsShape is that of permissions: read-all, write-all, or a level for each scope.
func permissionsShape() shape {
	return oneOf("read-all", "write-all").or(keysOf("permissions", scopeKeys))
}

// scopeKeys are the scopes of permissions with the levels that each can have.
func scopeKeys() []key { return keysOfScope() }

func makeScopeKeys() []key {
	var out []key
	for _, name := range []string{"actions", "artifact-metadata", "attestations", "checks", "code-quality", "contents",
		"deployments", "discussions", "drives", "issues", "packages", "pages", "pull-requests", "repository-projects",
		"security-events", "statuses"} {
		out = append(out, key{name: name, value: oneOf("read", "write", "none")})
	}
	return append(out, key{name: "copilot-requests", value: oneOf("write", "none")},
		key{name: "id-token", value: oneOf("write", "none")}, key{name: "models", value: oneOf("read", "none")},
		key{name: "vulnerability-alerts", value: oneOf("read", "none")})
}
