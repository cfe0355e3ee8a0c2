package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// Bounds of what eval reads. A context is as large as the largest payload of an event.
const (
	evalContextMax = 25 << 20
	evalLineMax    = 25 << 20
)

// evalFlags are the flags of eval.
type evalFlags struct {
	contexts, status         string
	template, explain, jsonl bool
}

func (a *app) cmdEval() *cobra.Command {
	var f evalFlags
	command := a.withJSON(&cobra.Command{
		Use:   "eval [EXPRESSION]",
		Short: "Evaluate an expression of the workflow language, without a server",
		Long: `Evaluate an expression with the same evaluator that runs use, and print its value as JSON.

The contexts come from a file: a JSON object with a field for each context that shall exist, such as
{"github": {"ref": "refs/heads/main"}}. With --template the text is a value as it stands in a workflow,
with ${{ }} in it. With --jsonl questions are read from standard input, one JSON object a line with
the fields id, expr (or template) and contexts; each gets one line with its id, and either kind and value or error.
Numbers that JSON does not know are {"$num": "NaN"}.`,
		Example: "  fairlead eval \"contains('Hello', 'ell') && 1 < 2\"\n" +
			"  fairlead eval --context contexts.json --explain \"github.ref == 'refs/heads/main' && always()\"\n" +
			"  fairlead eval --template 'release-${{ 1.50 }}'",
		Args: cobra.MaximumNArgs(1),
	})
	flags := command.Flags()
	flags.StringVarP(&f.contexts, "context", "c", "", "JSON `file` with the contexts; - is standard input")
	flags.BoolVarP(&f.template, "template", "t", false, "the text is a template with ${{ }} in it")
	flags.StringVar(&f.status, "status", "success", "what the status functions see: success, failure or cancelled")
	flags.BoolVar(&f.explain, "explain", false, "print every part of the expression with its value")
	flags.BoolVar(&f.jsonl, "jsonl", false, "answer questions from standard input, one a line")
	fixed(command, "status", "success", "failure", "cancelled")
	command.RunE = a.do(func(_ context.Context, args []string) error {
		if err := oneOf("status", f.status, "success", "failure", "cancelled"); err != nil {
			return err
		}
		if f.jsonl {
			if len(args) > 0 || f.contexts != "" || f.template || f.explain {
				return usagef("--jsonl takes everything from standard input; only --status goes with it")
			}
			return a.evalLines(f)
		}
		if len(args) != 1 {
			return usagef("say which expression, in single or double quotes of your shell")
		}
		return a.evalOne(args[0], f)
	})
	return command
}

func (f evalFlags) ask(text string, template bool, contexts expr.Value) expr.Answer {
	return expr.Ask(expr.Question{Text: text, Template: template, Contexts: contexts, Explain: f.explain,
		Status: expr.StepStatus{Failed: f.status == "failure", Stopped: f.status == "cancelled"}})
}

func (a *app) evalOne(text string, f evalFlags) error {
	contexts, err := a.evalContexts(f.contexts)
	if err != nil {
		return err
	}
	answer := f.ask(text, f.template, contexts)
	switch {
	case a.json:
		err = a.printJSON(answer)
	case answer.Err == nil:
		for line := range strings.Lines(answer.Value.JSON()) {
			fmt.Fprintln(a.out, clean(strings.TrimSuffix(line, "\n")))
		}
	default:
		line, mark := expr.Pointer(text, answer.Err.Span)
		fmt.Fprintf(a.Stderr, "fairlead: %s: %s [%s]\n  %s\n  %s\n", answer.Err.Phase, clean(answer.Err.Message),
			answer.Err.Code,
			clean(line), mark)
		if answer.Err.Hint != "" {
			fmt.Fprintf(a.Stderr, "  %s\n", clean(answer.Err.Hint))
		}
	}
	if err != nil {
		return err
	}
	if f.explain && !a.json {
		for _, e := range answer.Explanation {
			a.explained(e, 0)
		}
	}
	if answer.Err != nil {
		return &ended{ExitFailed}
	}
	return nil
}

// explained prints a part of an expression and, below it, its own parts.
func (a *app) explained(e expr.Explanation, depth int) {
	const textMax, indentMax = 100, 30
	value := "not evaluated"
	switch {
	case e.Err != nil:
		value = "error: " + e.Err.Message
	case e.Reached:
		value = shortened(string(e.Value.Exact()), textMax)
	}
	fmt.Fprintf(a.out, "%s%s  =>  %s\n", strings.Repeat("  ", min(depth, indentMax)+1), clean(shortened(e.Text, textMax)),
		a.out.paint(faint, clean(value)))
	for _, part := range e.Parts {
		a.explained(part, depth+1)
	}
}

// shortened is text in one line, cut with a mark.
func shortened(text string, most int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most]) + "…"
}

// evalContexts reads the contexts of a file; without one there are none.
func (a *app) evalContexts(path string) (expr.Value, error) {
	if path == "" {
		return expr.Object(), nil
	}
	text, err := a.readJSON(path)
	if err != nil {
		return expr.Value{}, err
	}
	contexts, err := readContexts(text)
	if err != nil {
		return expr.Value{}, usagef("%s: %v", path, err)
	}
	return contexts, nil
}

// readJSON reads a file with a context, but not more than a context may have.
func (a *app) readJSON(path string) ([]byte, error) {
	var from io.Reader = a.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, evalContextMax+1))
	if err != nil {
		return nil, usagef("read %s: %v", path, err)
	}
	if len(text) > evalContextMax {
		return nil, usagef("%s has more than %d bytes", path, evalContextMax)
	}
	return text, nil
}

func readContexts(text []byte) (expr.Value, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || string(trimmed) == "null" {
		return expr.Object(), nil
	}
	contexts, err := expr.FromJSON(string(text))
	if err == nil && contexts.Kind() != expr.KindObject {
		err = errors.New("the contexts must be a JSON object with a field for each context")
	}
	return contexts, err
}

// evalLine is one question of --jsonl.
type evalLine struct {
	ID       json.RawMessage `json:"id"`
	Expr     *string         `json:"expr"`
	Template *string         `json:"template"`
	Contexts json.RawMessage `json:"contexts"`
}

// evalLines answers line by line. It ends at a line that is no question: who writes such
// lines has another mistake than one in an expression.
func (a *app) evalLines(f evalFlags) error {
	lines := bufio.NewScanner(a.Stdin)
	lines.Buffer(nil, evalLineMax)
	number := 0
	for lines.Scan() {
		number++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := a.evalLine(f, lines.Bytes()); err != nil {
			return usagef("line %d: %v", number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return usagef("line %d has more than %d bytes", number+1, evalLineMax)
	} else if err != nil {
		return usagef("read questions: %v", err)
	}
	return nil
}

func (a *app) evalLine(f evalFlags, text []byte) error {
	var q evalLine
	if !utf8.Valid(text) {
		return errors.New("is not UTF-8")
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return fmt.Errorf("is not a question: %w", err)
	}
	if (q.Expr == nil) == (q.Template == nil) {
		return errors.New("needs either expr or template")
	}
	contexts, err := readContexts(q.Contexts)
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	question := q.Expr
	if question == nil {
		question = q.Template
	}
	answer, err := json.Marshal(f.ask(*question, q.Template != nil, contexts))
	if err != nil {
		return err
	}
	id := q.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	_, err = fmt.Fprintf(a.Stdout, "{\"id\":%s,%s\n", id, answer[1:])
	return err
}
