package syntax

// key is one key of the language at one place. A key with a later text is known, but
// not part of this release; the text says what to do instead.
type key struct {
	name  string
	later string
	code  Code // for a later key; CodeNotAvailable when empty
}

func workflowKeys() []key {
	return []key{
		{name: "name"}, {name: "description"}, {name: "on"}, {name: "env"}, {name: "jobs"},
		{name: "run-name", later: "remove it; a run carries the workflow's name and the commit"},
		{name: "permissions", later: "remove it; jobs get no token at all yet, so there is nothing to permit or deny"},
		{name: "defaults", later: "write shell and working-directory at each step"},
		{name: "concurrency", later: "remove it; runs of one workflow don't wait for each other yet"},
	}
}

func jobKeys() []key {
	return []key{
		{name: "name"}, {name: "needs"}, {name: "if"}, {name: "runs-on"}, {name: "env"}, {name: "steps"},
		{name: "timeout-minutes"}, {name: "continue-on-error"}, {name: "retry"}, {name: "effects"},
		{name: "environment", later: "remove the job, or run it elsewhere until deployments are available",
			code: CodeDeployNotAvailable},
		{name: "permissions", later: "remove it; jobs get no token at all yet, so there is nothing to permit or deny"},
		{name: "concurrency", later: "remove it; jobs don't wait for other runs yet"},
		{name: "outputs"},
		{name: "defaults", later: "write shell and working-directory at each step"},
		{name: "strategy"},
		{name: "container", later: "choose a runner that has the tools, with runs-on"},
		{name: "services", later: "start the service in a step of the job"},
		{name: "uses", later: "copy the jobs of the called workflow into this one"},
		{name: "with", later: "it belongs to uses, which is not available yet"},
		{name: "secrets", later: "it belongs to uses, which is not available yet"},
		{name: "snapshot", later: "remove it; images of runners can't be made from jobs yet"},
		{name: "cancel-timeout-minutes", later: "remove it; the server's own grace period applies"},
		{name: "artifacts", later: "keep steps that use each other's files in one job"},
		{name: "resources", later: "choose a runner of the right size, with runs-on"},
		{name: "network", later: "remove it; the pool decides about the network"},
		{name: "fallback", later: "name the pool that shall run the job, with runs-on"},
		{name: "tests", later: "print the results; the log keeps them"},
	}
}

func stepKeys() []key {
	return []key{
		{name: "id"}, {name: "name"}, {name: "if"}, {name: "run"}, {name: "uses"}, {name: "with"},
		{name: "env"}, {name: "shell"}, {name: "working-directory"},
		{name: "continue-on-error"}, {name: "timeout-minutes"}, {name: "cleanup"},
		{name: "deploy", later: "remove the job, or run it elsewhere until deployments are available",
			code: CodeDeployNotAvailable},
		{name: "tests", later: "print the results; the log keeps them"},
		{name: "idempotency-key", later: "use the variable FAIRLEAD_IDEMPOTENCY_KEY, which every step has"},
		{name: "background", later: "start the process in the script with &, and wait for it in the same step"},
		{name: "wait", later: "it belongs to background, which is not available yet"},
		{name: "wait-all", later: "it belongs to background, which is not available yet"},
		{name: "cancel", later: "it belongs to background, which is not available yet"},
		{name: "parallel", later: "write the steps one after another, or as jobs"},
	}
}

func pushKeys() []key {
	return []key{
		{name: "branches"}, {name: "branches-ignore"}, {name: "tags"}, {name: "tags-ignore"},
		{name: "paths", later: "remove it; the workflow then runs whichever files changed"},
		{name: "paths-ignore", later: "remove it; the workflow then runs whichever files changed"},
	}
}

func dispatchKeys() []key { return []key{{name: "inputs"}} }

func inputKeys() []key {
	return []key{{name: "description"}, {name: "required"}, {name: "default"}, {name: "type"}, {name: "options"}}
}

func retryKeys() []key { return []key{{name: "max"}, {name: "on"}, {name: "backoff"}} }

// runnerKeys are the keys of runs-on in its long form.
func runnerKeys() []key {
	return []key{
		{name: "labels"},
		{name: "group", later: "name the labels of the pool"},
		{name: "fallback", later: "name the pool that shall run the job"},
	}
}

// laterEvents are the events of the language that nothing can send to this release.
func laterEvents() []string {
	return []string{
		"branch_protection_rule", "check_run", "check_suite", "create", "delete", "deployment",
		"deployment_status", "discussion", "discussion_comment", "fork", "gollum", "image_version",
		"issue_comment", "issues", "label", "merge_group", "milestone", "page_build", "public",
		"pull_request", "pull_request_review", "pull_request_review_comment", "pull_request_target",
		"registry_package", "release", "repository_dispatch", "schedule", "status", "watch",
		"workflow_call", "workflow_run",
	}
}
