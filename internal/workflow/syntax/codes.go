package syntax

import "slices"

// Code is the stable, snake_case name of a kind of diagnostic. Codes are for ever:
// editors, scripts and policies match on them.
type Code string

// Codes of the file as text.
const (
	CodeSourceTooLarge    Code = "source_too_large"
	CodeInvalidUTF8       Code = "invalid_utf8"
	CodeControlCharacter  Code = "control_character"
	CodeInvalidYAML       Code = "invalid_yaml"
	CodeTooDeep           Code = "yaml_too_deep"
	CodeTooManyNodes      Code = "yaml_too_many_nodes"
	CodeTooMuchText       Code = "yaml_too_much_text"
	CodeMultipleDocuments Code = "multiple_documents"
	CodeEmptyWorkflow     Code = "empty_workflow"
	CodeDuplicateKey      Code = "duplicate_key"
	CodeMergeKey          Code = "merge_key"
	CodeKeyNotText        Code = "key_not_text"
	CodeInvalidAlias      Code = "invalid_alias"
	CodeUnsupportedTag    Code = "invalid_tag"
	CodeTooManyProblems   Code = "too_many_problems"
)

// Codes of keys and values.
const (
	CodeUnknownKey        Code = "unknown_key"
	CodeMissingKey        Code = "missing_key"
	CodeWrongType         Code = "wrong_type"
	CodeEmptyValue        Code = "empty_value"
	CodeInvalidValue      Code = "invalid_value"
	CodeUnknownEvent      Code = "unknown_event"
	CodeEventNotDeclared  Code = "event_not_declared"
	CodeInvalidFilter     Code = "invalid_filter"
	CodeInvalidInput      Code = "invalid_input_definition"
	CodeUnknownInput      Code = "unknown_input"
	CodeMissingInput      Code = "missing_input"
	CodeInvalidInputValue Code = "invalid_input_value"
	CodeInvalidVariable   Code = "invalid_variable_name"
	CodeInvalidSchedule   Code = "invalid_schedule"
	CodeShortSchedule     Code = "short_schedule"
)

// Codes of what the language has and this release has not. Each begins with unsupported_.
const (
	CodeUnsupportedCall        Code = "unsupported_reusable_workflow"
	CodeUnsupportedConcurrency Code = "unsupported_concurrency"
	CodeUnsupportedDynamic     Code = "unsupported_dynamic_value"
	CodeUnsupportedFunction    Code = "unsupported_function"
)

// Codes of what compiles and is not run by this release. Each begins with not_run_, and is the code of a
// requirement of the plan.
const (
	CodeNotRunDeployment Code = "not_run_deployment"
	CodeNotRunAction     Code = "not_run_action"
	CodeNotRunOption     Code = "not_run_checkout_option"
	CodeNotRunContainer  Code = "not_run_container"
	CodeNotRunServices   Code = "not_run_services"
	CodeNotRunBackground Code = "not_run_background_steps"
	CodeNotRunGroup      Code = "not_run_runner_group"
	CodeNotRunShell      Code = "not_run_shell"
	CodeNotRunDynamic    Code = "not_run_dynamic_value"
	CodeNotRunKey        Code = "not_run_key"
	CodeNotRunSecrets    Code = "not_run_secrets"
	CodeNotRunVars       Code = "not_run_vars"
)

// Codes of jobs and steps.
const (
	CodeNoJobs              Code = "no_jobs"
	CodeTooManyJobs         Code = "too_many_jobs"
	CodeInvalidJobID        Code = "invalid_job_id"
	CodeUnknownNeed         Code = "unknown_need"
	CodeSelfNeed            Code = "self_need"
	CodeDuplicateNeed       Code = "duplicate_need"
	CodeNeedCycle           Code = "need_cycle"
	CodeNoSteps             Code = "no_steps"
	CodeTooManySteps        Code = "too_many_steps"
	CodeInvalidStepID       Code = "invalid_step_id"
	CodeDuplicateStepID     Code = "duplicate_step_id"
	CodeNoAction            Code = "step_without_action"
	CodeTwoActions          Code = "step_with_two_actions"
	CodeUnknownBuiltin      Code = "unknown_builtin"
	CodeMisplacedKey        Code = "misplaced_key"
	CodeEmptyScript         Code = "empty_script"
	CodeInvalidReference    Code = "invalid_reference"
	CodeNotCallable         Code = "workflow_not_callable"
	CodeCallCycle           Code = "call_cycle"
	CodeTooManyCalls        Code = "too_many_calls"
	CodePermissionsExceeded Code = "permissions_exceeded"
	CodeInvalidAction       Code = "invalid_action"
	CodeActionInput         Code = "unknown_action_input"
	CodeNoActionInput       Code = "missing_action_input"
	CodeUnresolved          Code = "unresolved_reference"
	CodeMovingReference     Code = "moving_reference"
	CodeUnpinned            Code = "unpinned_reference"
	CodeNotLocked           Code = "reference_not_locked"
	CodeUnknownShell        Code = "unknown_shell"
	CodeInvalidTimeout      Code = "invalid_timeout"
	CodeInvalidRetry        Code = "invalid_retry"
	CodePlanTooLarge        Code = "plan_too_large"
	CodeInvalidMatrix       Code = "invalid_matrix"
	CodeTooManyLegs         Code = "too_many_legs"
	CodeInvalidOutput       Code = "invalid_output_name"
)

// Codes of expressions. Those that package expr finds have the same text there.
const (
	CodeExpressionSyntax    Code = "expression_syntax"
	CodeExpressionNotClosed Code = "expression_not_closed"
	CodeExpressionTooLong   Code = "expression_too_long"
	CodeExpressionTooDeep   Code = "expression_too_deep"
	CodeExpressionFailed    Code = "expression_failed"
	CodeExpressionBudget    Code = "expression_budget_exceeded"
	CodeUnknownFunction     Code = "unknown_function"
	CodeArgumentCount       Code = "wrong_argument_count"
	CodeUnknownContext      Code = "unknown_context"
	CodeContextNotAllowed   Code = "context_not_allowed"
	CodeFunctionNotAllowed  Code = "function_not_allowed"

	CodeExpressionNotAllowed Code = "expression_not_allowed"
)

// Codes of warnings: the file compiles, and does something its author may not want.
const (
	CodeAlwaysTrue          Code = "always_true_condition"
	CodeExpressionInjection Code = "expression_injection"
	CodeUndefinedReference  Code = "undefined_reference"
	CodeNumberChanged       Code = "number_changed"
	CodeNeverFires          Code = "event_never_fires"
)

// Codes of information: nothing is wrong, and the author may want to know.
const (
	CodeNoToken      Code = "permissions_without_token"
	CodeFairleadOnly Code = "fairlead_only"
)

// CodeEntry is one row of the table of codes.
type CodeEntry struct {
	Code     Code
	Severity Severity
	Means    string
}

// Codes lists every code with its severity and one sentence. The reference page of
// diagnostics is made from it.
func Codes() []CodeEntry {
	return slices.Concat(textCodes(), keyCodes(), unsupportedCodes(), notRunCodes(), jobCodes(), expressionCodes())
}

// severity is that of the table of codes; a test compares the two.
func severity(code Code) Severity {
	switch code {
	case CodeAlwaysTrue, CodeExpressionInjection, CodeUndefinedReference, CodeNumberChanged, CodeNeverFires,
		CodeEmptyScript, CodeActionInput, CodeNoActionInput, CodeMovingReference,
		CodeNotRunAction, CodeNotRunOption, CodeNotRunSecrets, CodeNotRunVars,
		CodeNotRunContainer, CodeNotRunServices, CodeNotRunShell, CodeNotRunGroup, CodeNotRunDynamic, CodeNotRunBackground,
		CodeNotRunDeployment, CodeNotRunKey:
		return Warning
	case CodeNoToken, CodeFairleadOnly, CodeShortSchedule:
		return Info
	}
	return Error
}

func textCodes() []CodeEntry {
	return []CodeEntry{
		{CodeSourceTooLarge, Error, "The file is larger than the bound on workflow files."},
		{CodeInvalidUTF8, Error, "The file holds a byte that is not valid UTF-8."},
		{CodeControlCharacter, Error, "The file holds a control character, such as NUL, outside an escape."},
		{CodeInvalidYAML, Error, "The file is not valid YAML."},
		{CodeTooDeep, Error, "Mappings and lists nest deeper than the bound."},
		{CodeTooManyNodes, Error, "The file has more nodes than the bound, counted after aliases are expanded."},
		{CodeTooMuchText, Error, "The file has more text than the bound, counted after aliases are expanded."},
		{CodeMultipleDocuments, Error, "The file holds more than one YAML document."},
		{CodeEmptyWorkflow, Error, "The file has no content, or is not a mapping."},
		{CodeDuplicateKey, Error, "A mapping has the same key twice; keys are compared without case."},
		{CodeMergeKey, Error, "The merge key << is not part of the workflow language."},
		{CodeKeyNotText, Error, "A key of a mapping is not text."},
		{CodeInvalidAlias, Error, "An alias has no anchor before it, or stands inside its own anchor."},
		{CodeUnsupportedTag, Error, "A YAML tag has no meaning in workflows."},
		{CodeTooManyProblems, Error,
			"The file has more problems than are shown at once; a warning if all of those are warnings."},
	}
}

func keyCodes() []CodeEntry {
	return []CodeEntry{
		{CodeUnknownKey, Error, "The workflow language has no such key at this place."},
		{CodeMissingKey, Error, "A key that must be given is missing."},
		{CodeWrongType, Error, "A value has the wrong type: text, a number, a boolean, a list or a mapping was expected."},
		{CodeEmptyValue, Error, "A key is given without a value."},
		{CodeInvalidValue, Error, "A value is of the right type, but not one that the key accepts."},
		{CodeUnknownEvent, Error, "There is no event of that name."},
		{CodeEventNotDeclared, Error, "The workflow was to be started by an event that it does not declare under on."},
		{CodeInvalidFilter, Error, "A pattern or a combination of filters under on.push is not valid."},
		{CodeInvalidInput, Error, "The definition of an input of workflow_dispatch is not valid."},
		{CodeUnknownInput, Error, "A value was given for an input that the workflow does not define."},
		{CodeMissingInput, Error, "No value was given for an input that is required and has no default."},
		{CodeInvalidInputValue, Error, "The value given for an input does not fit the input's type."},
		{CodeInvalidVariable, Error, "The name of an environment variable is not valid."},
		{CodeShortSchedule, Info, "The schedule is due more often than elsewhere, where it is started less often."},
		{CodeInvalidSchedule, Error, "The time of a schedule, or its time zone, is not valid."},
		{CodeNeverFires, Warning, "Nothing sends the event in this release, so it never starts the workflow."},
		{CodeNoToken, Info,
			"Permissions are recorded, and jobs get no token at all yet: they can do less than is permitted."},
		{CodeFairleadOnly, Info, "The workflow has a key of Fairlead's own, so it runs nowhere else."},
	}
}

func unsupportedCodes() []CodeEntry {
	return []CodeEntry{
		{CodeUnsupportedCall, Error,
			"A job that calls a workflow has a matrix that only a run tells, which is not available yet."},
		{CodeUnsupportedConcurrency, Error, "A called workflow has a concurrency group that a call can't join yet."},
		{CodeUnsupportedDynamic, Error, "The key of a mapping comes from an expression, which is not available yet."},
		{CodeUnsupportedFunction, Error,
			"The function is part of the workflow language, but this release doesn't have it yet."},
	}
}

// notRunCodes are those of requirements: Compile warns of them, and a run is refused.
func notRunCodes() []CodeEntry {
	return []CodeEntry{
		{CodeNotRunAction, Warning, "The step uses an action, and this release runs composite ones and checkout only."},
		{CodeNotRunOption, Warning, "The built-in checkout does not do what this option asks for."},
		{CodeNotRunSecrets, Warning, "The job names secrets or its token, and this release gives none to jobs."},
		{CodeNotRunVars, Warning, "The job names the context vars, and this release has no variables to put there."},
		{CodeNotRunContainer, Warning, "The steps of the job shall run in a container image, and they run on the runner."},
		{CodeNotRunServices, Warning, "The job wants services beside it, and this release starts none."},
		{CodeNotRunShell, Warning, "The shell belongs to Windows, and runners are not Windows yet."},
		{CodeNotRunGroup, Warning, "The job names a group of runners, and pools are found by labels."},
		{CodeNotRunDynamic, Warning, "The value comes from an expression that this release does not evaluate at this place."},
		{CodeNotRunBackground, Warning, "Steps shall run beside each other, and they run one after another."},
		{CodeNotRunDeployment, Warning, "The step asks for a deployment, and this release makes none."},
		{CodeNotRunKey, Warning, "The key is recorded in the plan, and has no effect in this release."},
	}
}

func jobCodes() []CodeEntry {
	return []CodeEntry{
		{CodeNoJobs, Error, "The workflow has no jobs."},
		{CodeTooManyJobs, Error, "The workflow has more jobs than the bound."},
		{CodeInvalidJobID, Error, "The id of a job is not a name, too long, or reserved."},
		{CodeUnknownNeed, Error, "A job needs a job that does not exist."},
		{CodeSelfNeed, Error, "A job needs itself."},
		{CodeDuplicateNeed, Error, "A job names the same need twice."},
		{CodeNeedCycle, Error, "Jobs need each other in a circle, so none of them could start."},
		{CodeNoSteps, Error, "A job has no steps."},
		{CodeTooManySteps, Error, "A job has more steps than the bound."},
		{CodeInvalidStepID, Error, "The id of a step is not a name, too long, or reserved."},
		{CodeDuplicateStepID, Error, "Two steps of a job have the same id; ids are compared without case."},
		{CodeNoAction, Error, "A step has neither run nor uses, so it does nothing."},
		{CodeTwoActions, Error, "A step has more than one of run, uses and deploy."},
		{CodeUnknownBuiltin, Error, "A step that is only a word names no built-in."},
		{CodeMisplacedKey, Error, "A key has no effect on this kind of step."},
		{CodeEmptyScript, Warning, "The script of a step is empty, so the step does nothing."},
		{CodeNotCallable, Error, "The workflow that a job calls does not declare workflow_call."},
		{CodeCallCycle, Error, "Workflows call each other in a circle."},
		{CodeTooManyCalls, Error, "Calls nest deeper, or a run makes more calls, than the bound."},
		{CodePermissionsExceeded, Error,
			"A job of a called workflow asks for more permissions than the job that calls it has."},
		{CodeInvalidReference, Error, "A uses names no action or workflow in a form that can be found."},
		{CodeInvalidAction, Error, "The definition of an action that a step uses is not valid."},
		{CodeActionInput, Warning, "A value is given for an input that the action does not have, or does not want any more."},
		{CodeNoActionInput, Warning, "No value is given for an input that the action requires, and it has no default."},
		{CodeUnresolved, Error, "A uses names something that this server can't resolve to a commit."},
		{CodeMovingReference, Warning, "A uses names a branch or tag, which may lead to another commit tomorrow."},
		{CodeUnpinned, Error, "The repository takes only references that name a full commit id, and this one does not."},
		{CodeNotLocked, Error, "The lock file of the repository has another commit for a reference, or none."},
		{CodeUnknownShell, Error, "The shell is not one of the known ones, and no command with exactly one {0} in it."},
		{CodeInvalidTimeout, Error, "A timeout is not a positive number of minutes within the bound."},
		{CodeInvalidRetry, Error, "A retry policy is not valid."},
		{CodePlanTooLarge, Error, "The compiled plan would be larger than the bound."},
		{CodeInvalidMatrix, Error, "A matrix can't be expanded: a vector is empty, or a key of exclude is no vector."},
		{CodeTooManyLegs, Error, "A matrix has more legs than the bound; they are counted before any is made."},
		{CodeInvalidOutput, Error, "The name of an output of a job is not a name, or too long."},
	}
}

func expressionCodes() []CodeEntry {
	return []CodeEntry{
		{CodeExpressionSyntax, Error, "An expression can't be read."},
		{CodeExpressionNotClosed, Error, "An expression that starts with ${{ has no }}."},
		{CodeExpressionTooLong, Error, "An expression is longer than the bound."},
		{CodeExpressionTooDeep, Error, "An expression nests deeper than the bound."},
		{CodeExpressionFailed, Error, "An expression that is evaluated while compiling has no value."},
		{CodeExpressionBudget, Error, "The evaluation of an expression takes more steps or memory than the bound."},
		{CodeUnknownFunction, Error, "There is no function of that name."},
		{CodeArgumentCount, Error, "A function is called with too few or too many arguments."},
		{CodeUnknownContext, Error, "There is no context of that name."},
		{CodeContextNotAllowed, Error, "The context exists, but not at this key."},
		{CodeFunctionNotAllowed, Error, "The function exists, but not at this key."},
		{CodeExpressionNotAllowed, Error, "The value is read before anything is evaluated, so it can't have an expression."},
		{CodeAlwaysTrue, Warning, "A condition has text outside ${{ }}, which makes it text, and text is always true."},
		{CodeExpressionInjection, Warning,
			"Text that an outsider may choose is pasted into a script before the shell reads it."},
		{CodeUndefinedReference, Warning, "An expression refers to something that is not defined, so it is always empty."},
		{CodeNumberChanged, Warning, "A number is written in a way that does not survive: 3.10 is the number 3.1."},
	}
}
