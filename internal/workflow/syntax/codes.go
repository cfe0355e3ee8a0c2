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
	CodeNotAvailable           Code = "unsupported_key"
	CodeDeployNotAvailable     Code = "unsupported_deployment"
	CodeUnsupportedAction      Code = "unsupported_action"
	CodeUnsupportedOption      Code = "unsupported_checkout_option"
	CodeUnsupportedCall        Code = "unsupported_reusable_workflow"
	CodeUnsupportedContainer   Code = "unsupported_container"
	CodeUnsupportedServices    Code = "unsupported_services"
	CodeUnsupportedBackground  Code = "unsupported_background_steps"
	CodeUnsupportedRunnerGroup Code = "unsupported_runner_group"
	CodeUnsupportedContext     Code = "unsupported_context"
	CodeUnsupportedFunction    Code = "unsupported_function"
	CodeUnsupportedDynamic     Code = "unsupported_dynamic_value"
	CodeUnsupportedShell       Code = "unsupported_shell"
)

// Codes of jobs and steps.
const (
	CodeNoJobs           Code = "no_jobs"
	CodeTooManyJobs      Code = "too_many_jobs"
	CodeInvalidJobID     Code = "invalid_job_id"
	CodeUnknownNeed      Code = "unknown_need"
	CodeSelfNeed         Code = "self_need"
	CodeDuplicateNeed    Code = "duplicate_need"
	CodeNeedCycle        Code = "need_cycle"
	CodeNoSteps          Code = "no_steps"
	CodeTooManySteps     Code = "too_many_steps"
	CodeInvalidStepID    Code = "invalid_step_id"
	CodeDuplicateStepID  Code = "duplicate_step_id"
	CodeNoAction         Code = "step_without_action"
	CodeTwoActions       Code = "step_with_two_actions"
	CodeUnknownBuiltin   Code = "unknown_builtin"
	CodeMisplacedKey     Code = "misplaced_key"
	CodeEmptyScript      Code = "empty_script"
	CodeInvalidReference Code = "invalid_reference"
	CodeUnknownShell     Code = "unknown_shell"
	CodeInvalidTimeout   Code = "invalid_timeout"
	CodeInvalidRetry     Code = "invalid_retry"
	CodePlanTooLarge     Code = "plan_too_large"
	CodeInvalidMatrix    Code = "invalid_matrix"
	CodeTooManyLegs      Code = "too_many_legs"
	CodeInvalidOutput    Code = "invalid_output_name"
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
	return slices.Concat(textCodes(), keyCodes(), unsupportedCodes(), jobCodes(), expressionCodes())
}

// severity is that of the table of codes; a test compares the two.
func severity(code Code) Severity {
	switch code {
	case CodeAlwaysTrue, CodeExpressionInjection, CodeUndefinedReference, CodeNumberChanged, CodeNeverFires,
		CodeEmptyScript:
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
		{CodeNotAvailable, Error, "The key is part of the workflow language, but this release doesn't have it yet."},
		{CodeDeployNotAvailable, Error, "Environments and deployments are part of the workflow language, " +
			"but this release doesn't have them yet."},
		{CodeUnsupportedAction, Error,
			"Actions are part of the workflow language, but this release has only actions/checkout."},
		{CodeUnsupportedOption, Error, "The built-in checkout doesn't have this option of actions/checkout yet."},
		{CodeUnsupportedCall, Error, "Calling a workflow from a job is not available yet."},
		{CodeUnsupportedContainer, Error, "Jobs that run in a container image are not available yet."},
		{CodeUnsupportedServices, Error, "Services beside a job are not available yet."},
		{CodeUnsupportedBackground, Error, "Steps that run beside each other are not available yet."},
		{CodeUnsupportedRunnerGroup, Error, "Groups of runners are not available yet; pools have labels."},
		{CodeUnsupportedContext, Error,
			"The context is part of the workflow language, but this release doesn't have it yet."},
		{CodeUnsupportedFunction, Error,
			"The function is part of the workflow language, but this release doesn't have it yet."},
		{CodeUnsupportedDynamic, Error, "The value comes from an expression that can't be evaluated at this place yet."},
		{CodeUnsupportedShell, Error, "The shell belongs to Windows, and runners are not Windows yet."},
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
		{CodeInvalidReference, Error, "A uses names no action or workflow in a form that can be found."},
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
