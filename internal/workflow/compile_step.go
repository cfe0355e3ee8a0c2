package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// builtinCheckout is the built-in step that puts the pinned commit into the workspace.
const builtinCheckout = "checkout"

// steps compiles the steps of a job.
func (c *compiler) steps(job *syntax.Job, ids []string, defaults runDefaults) []plan.Step {
	if len(job.Steps) > c.lim.Steps {
		c.reports.Add(syntax.CodeTooManySteps, job.Steps[c.lim.Steps].Node.Range,
			fmt.Sprintf("the job %s has %d steps; at most %d are allowed", syntax.Quote(job.ID.Value), len(job.Steps),
				c.lim.Steps), "split the job")
		return nil
	}
	var out []plan.Step
	c.expanded = len(job.Steps)
	for i, in := range job.Steps {
		visible := &stepScope{before: ids[:i], later: ids[i:]}
		out = append(out, c.step(in, i, ids[i], visible, defaults))
	}
	return out
}

// stepIDs decides the ids of all steps: the given ones, and for the others one that
// says what the step is, with a number where it comes again.
func (c *compiler) stepIDs(job *syntax.Job) []string {
	ids := make([]string, len(job.Steps))
	first := make(map[string]*syntax.Node)
	for i, in := range job.Steps {
		if in.ID == nil {
			continue
		}
		id := scalarText(in.ID)
		if why := badID(id); why != "" {
			c.reports.Add(syntax.CodeInvalidStepID, in.ID.Range, fmt.Sprintf("%s can't be the id of a step: %s",
				syntax.Quote(id), why), "use letters, digits, - and _, starting with a letter; name: takes any text")
		}
		if earlier := first[strings.ToUpper(id)]; earlier != nil {
			c.reports.Add(syntax.CodeDuplicateStepID, in.ID.Range, fmt.Sprintf("the id %s was given already in line %d",
				syntax.Quote(id), earlier.Start.Line), "ids are compared without case")
		} else {
			first[strings.ToUpper(id)] = in.ID
		}
		ids[i] = id
	}
	used := make(map[string]int)
	for i, in := range job.Steps {
		if ids[i] != "" {
			continue
		}
		id := generatedID(in)
		key := strings.ToUpper(id)
		if used[key]++; used[key] > 1 {
			id += "_" + strconv.Itoa(used[key])
		}
		ids[i] = id
	}
	return ids
}

// generatedID starts with __, which given ids may not, so it collides with none. It says what the
// step uses, as elsewhere.
func generatedID(in *syntax.Step) string {
	switch {
	case in.Builtin != nil:
		return "__" + builtinCheckout
	case in.Deploy != nil:
		return "__deploy"
	case in.Uses == nil:
		return "__run"
	}
	const lengthMax = 90 // there is room for a number
	text := scalarText(in.Uses)
	image, docker := strings.CutPrefix(text, "docker://")
	path, _, _ := strings.Cut(text, "@")
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	name := "run"
	switch {
	case docker:
		name = image
	case badAction(text) != "":
	case strings.HasPrefix(text, "./"), strings.HasPrefix(text, `.\`), strings.HasPrefix(text, "$/"):
		name = "self"
	default:
		name = segments[0] + "_" + segments[1]
	}
	legal := func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}
	name = strings.Map(legal, name)
	return "__" + name[:min(len(name), lengthMax)]
}

func (c *compiler) step(in *syntax.Step, index int, id string, visible *stepScope, defaults runDefaults) plan.Step {
	step := plan.Step{Index: index, ID: id, Uses: plan.UsesRun, Line: in.Node.Start.Line}
	ofJob := c.unmet
	c.unmet = nil
	switch {
	case in.Builtin != nil:
		c.builtin(in.Builtin)
		step.Uses, step.Name = plan.UsesCheckout, builtinCheckout
	case in.Uses != nil:
		if r, is := actionReference(in.Uses, c.reference); is && c.in.Components != nil {
			step.Name = "Run " + scalarText(in.Uses)
			c.use(&step, in, r, visible)
		} else {
			c.action(&step, in)
		}
	case in.Run != nil:
		c.script(&step, in, visible, defaults)
	case in.Deploy != nil:
		step.Uses, step.Action = plan.UsesDeploy, scalarText(in.Deploy)
		step.Name = "Deploy " + step.Action
	default:
		step.Uses, step.Name = plan.UsesWait, "Steps beside each other"
	}
	if in.Name != nil {
		c.template(in.Name, stepKeyScope("name", visible))
		step.Name = scalarText(in.Name)
	}
	if cond := c.condition(in.If, stepIfScope(visible)); cond != nil && !cond.Default() {
		step.If = cond.Text()
	}
	step.Env = c.env(in.Env, stepKeyScope("env", visible))
	c.whole(in.EnvFrom, stepKeyScope("env", visible))
	for _, b := range step.Env {
		c.charge(in.Node.Range, b.Name, b.Value)
	}
	for _, p := range in.With {
		c.template(p.Value, stepKeyScope("with", visible))
	}
	for _, b := range step.With {
		c.charge(in.Node.Range, b.Name, b.Value)
	}
	c.record(in.Unmet, stepKeyScope("step", visible))
	c.whole(in.WithFrom, stepKeyScope("with", visible))
	if text, runtime := c.onRunner(in.SoftFail, stepKeyScope("continue-on-error", visible)); runtime {
		step.SoftFailText = text
	} else {
		step.SoftFail = c.truth(in.SoftFail, stepKeyScope("continue-on-error", visible))
	}
	step.Cleanup = c.truth(in.Cleanup, stepKeyScope("cleanup", visible))
	if text, runtime := c.onRunner(in.Timeout, stepKeyScope("timeout-minutes", visible)); runtime {
		step.TimeoutText = text
	} else {
		step.TimeoutSeconds, _ = c.timeout(in.Timeout, stepKeyScope("timeout-minutes", visible))
	}
	c.charge(in.Node.Range, step.ID, step.Name, step.If, step.Script, step.WorkDir, step.Shell, step.SoftFailText,
		step.TimeoutText, step.Action)
	step.Unmet, c.unmet = c.unmet, ofJob
	if c.full() {
		return plan.Step{}
	}
	return step
}

// onRunner gives the text of a key of a step whose value only the runner can know.
func (c *compiler) onRunner(n *syntax.Node, s scope) (text string, runtime bool) {
	if n == nil || n.Type != syntax.TypeString || !expr.HasExpression(n.Value) {
		return "", false
	}
	t, err := expr.ParseTemplate(n.Value)
	if err != nil { // the caller reports it
		return "", false
	}
	known := true
	for _, ref := range t.References() {
		known = known && c.isStatic(ref)
	}
	if known {
		return "", false
	}
	c.template(n, s)
	return n.Value, true
}

// builtin checks the word of a bare step.
func (c *compiler) builtin(n *syntax.Node) {
	if word := scalarText(n); word != builtinCheckout {
		c.reports.Add(syntax.CodeUnknownBuiltin, n.Range, fmt.Sprintf("there is no built-in step %s", syntax.Quote(word)),
			c.reports.Suggest(word, []string{builtinCheckout},
				"the one built-in is checkout; a command is written - run: command"))
	}
}

// action compiles a step with uses: the built-in checkout at any version, or an action.
func (c *compiler) action(step *plan.Step, in *syntax.Step) {
	text := scalarText(in.Uses)
	step.Name = "Run " + text
	if why := badAction(text); why != "" {
		c.reports.Add(syntax.CodeInvalidReference, in.Uses.Range,
			fmt.Sprintf("%s is not an action: %s", syntax.Quote(text), why),
			"write OWNER/REPOSITORY@VERSION, like actions/checkout@v4, or ./FOLDER for an action of the repository")
		return
	}
	if name, _, _ := strings.Cut(text, "@"); strings.EqualFold(name, "actions/checkout") {
		step.Uses, step.With = plan.UsesCheckout, c.checkoutOptions(in)
		return
	}
	c.resolvedAction(step, in)
}

// resolvedAction compiles an action. Without components its reference stays as it is written; a
// plan that is to be executed requires what it is then.
func (c *compiler) resolvedAction(step *plan.Step, in *syntax.Step) {
	step.Uses, step.Action = plan.UsesAction, scalarText(in.Uses)
	for _, p := range in.With {
		step.With = append(step.With, plan.Binding{Name: p.Key.Value, Value: scalarText(p.Value)})
	}
}

func (c *compiler) script(step *plan.Step, in *syntax.Step, visible *stepScope, defaults runDefaults) {
	step.Shell, step.WorkDir = defaults.shell, defaults.workDir
	step.Script = scalarText(in.Run)
	c.template(in.Run, stepKeyScope("run", visible))
	step.Name = title(step.Script)
	if strings.TrimSpace(step.Script) == "" {
		c.reports.Add(syntax.CodeEmptyScript, in.Node.Range, "the script of the step is empty, so it does nothing",
			"write a command, or remove the step")
	}
	if in.WorkDir != nil {
		c.template(in.WorkDir, stepKeyScope("working-directory", visible))
		step.WorkDir = scalarText(in.WorkDir)
	}
	if in.Shell != nil {
		step.Shell = c.shell(in.Shell, stepKeyScope("shell", visible))
	}
}

// title is the name of a step that has none: its first line. A line that is long, or
// whose expression goes on in the next, would not make a name.
func title(script string) string {
	const charactersMax = 200
	first, _, _ := strings.Cut(strings.TrimSpace(script), "\n")
	first = strings.TrimSpace(first)
	if _, err := expr.ParseTemplate(first); err != nil || len(first) > charactersMax {
		return "Run a script"
	}
	return "Run " + first
}

// shell checks a shell: a known name, or a command with exactly one {0} where the script's
// file goes. A program that is given its script twice takes the second for an argument.
func (c *compiler) shell(n *syntax.Node, s scope) string {
	known := []string{"bash", "sh", "python", "pwsh", "cmd", "powershell"}
	if text, runtime := c.onRunner(n, s); runtime {
		return text
	}
	v, ok := c.static(n, s)
	text := strings.TrimSpace(v.Text())
	if lower := strings.ToLower(text); slices.Contains(known, lower) {
		text = lower
	}
	switch {
	case !ok, slices.Contains(known, text), strings.Count(text, "{0}") == 1:
	case strings.Count(text, "{0}") > 1:
		c.reports.Add(syntax.CodeUnknownShell, n.Range,
			fmt.Sprintf("the shell %s names the script's file %d times", syntax.Quote(text), strings.Count(text, "{0}")),
			"write {0} exactly once: every other word is an argument of the program")
	default:
		c.reports.Add(syntax.CodeUnknownShell, n.Range, fmt.Sprintf("there is no shell %s", syntax.Quote(text)),
			c.reports.Suggest(text, known,
				"use bash, sh, python or pwsh, or a command with {0} for the script, like \"zsh {0}\""))
	}
	return text
}
