package trigger

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// inspected is a workflow file with what starts it.
type inspected struct {
	file        scm.File
	triggers    workflow.Triggers
	diagnostics []workflow.Diagnostic
}

func (c *cause) inspect(file scm.File) inspected {
	triggers, diagnostics := workflow.Inspect(workflow.Source{Path: file.Path, Text: file.Bytes}, c.triggers.cfg.Limits)
	return inspected{file, triggers, diagnostics}
}

// choose finds the one workflow that a request means and fixes its event. A file that is
// named is taken even when it is broken: compiling it says what is wrong.
func (c *cause) choose() (scm.File, error) {
	if len(c.files) == 0 {
		return scm.File{}, reject(domain.CodeWorkflowNotFound, "workflow",
			"Commit %.12s has no workflow; add one in %s or %s.", c.commit.ID, workflow.FolderFairlead, workflow.FolderGitHub)
	}
	switch c.request.Event {
	case "", workflow.EventPush, workflow.EventDispatch:
	default:
		return scm.File{}, reject(domain.CodeInvalidArgument, "event",
			"A run can be asked for with the events %s and %s, not %.50q.", workflow.EventPush,
			workflow.EventDispatch, c.request.Event)
	}
	if c.request.Workflow != "" {
		return c.named()
	}
	var all []inspected
	for _, file := range c.files {
		all = append(all, c.inspect(file))
	}
	event, found, reasons := pick(all, c.request.Event, c.ref)
	switch len(found) {
	case 1:
		c.request.Event = event
		return found[0].file, nil
	case 0:
		return scm.File{}, &Refusal{Choices: c.choices(c.files),
			Rejection: &domain.Rejection{Code: domain.CodeWorkflowNotFound, Field: "workflow",
				Message: fmt.Sprintf("No workflow of commit %.12s starts here: %s.", c.commit.ID, strings.Join(reasons, "; "))}}
	}
	var files []scm.File
	for _, in := range found {
		files = append(files, in.file)
	}
	choices := c.choices(files)
	return scm.File{}, &Refusal{Choices: choices,
		Rejection: &domain.Rejection{Code: domain.CodeWorkflowAmbiguous, Field: "workflow",
			Message: fmt.Sprintf("Several workflows match the event %s: %s. Name one.", event, strings.Join(choices, ", "))}}
}

// pick lists the workflows that the event starts. Without an event it is
// workflow_dispatch where any workflow declares it, else push.
func pick(all []inspected, event, ref string) (string, []inspected, []string) {
	events := []string{event}
	if event == "" {
		events = []string{workflow.EventDispatch, workflow.EventPush}
	}
	var reasons []string
	for _, event = range events {
		var found []inspected
		reasons = nil
		for _, in := range all {
			ok, reason := in.triggers.Match(event, ref)
			switch {
			case ok:
				found = append(found, in)
			case workflow.Failed(in.diagnostics):
				reasons = append(reasons, in.file.Path+" can't be read: "+firstError(in.diagnostics))
			default:
				reasons = append(reasons, in.file.Path+": "+reason)
			}
		}
		if len(found) > 0 {
			return event, found, reasons
		}
	}
	return event, nil, reasons[:min(len(reasons), choicesMax)]
}

// named finds the workflow that the request names by path or file name.
func (c *cause) named() (scm.File, error) {
	name := strings.TrimPrefix(path.Clean(c.request.Workflow), "./")
	at := slices.IndexFunc(c.files, func(f scm.File) bool { return f.Path == name })
	if at < 0 {
		at = slices.IndexFunc(c.files, func(f scm.File) bool {
			base := path.Base(f.Path)
			return base == name || strings.TrimSuffix(base, path.Ext(base)) == name
		})
	}
	if at < 0 {
		return scm.File{}, &Refusal{Choices: c.choices(c.files),
			Rejection: &domain.Rejection{Code: domain.CodeWorkflowNotFound, Field: "workflow",
				Message: fmt.Sprintf("Commit %.12s has no workflow %.100q.", c.commit.ID, c.request.Workflow)}}
	}
	in := c.inspect(c.files[at])
	if workflow.Failed(in.diagnostics) {
		if c.request.Event == "" {
			c.request.Event = workflow.EventPush
		}
		return in.file, nil
	}
	event := c.request.Event
	if event == "" {
		event = workflow.EventPush
		if in.triggers.Declares(workflow.EventDispatch) {
			event = workflow.EventDispatch
		}
	}
	// Who names a workflow has chosen: filters on branches say what starts by itself.
	if !in.triggers.Declares(event) {
		return scm.File{}, &Refusal{Choices: in.triggers.Events,
			Rejection: &domain.Rejection{Code: domain.CodeEventNotDeclared, Field: "event",
				Message: fmt.Sprintf("%s does not declare the event %s; it declares %s.", in.file.Path, event,
					orNothing(in.triggers.Events))}}
	}
	c.request.Event = event
	return in.file, nil
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "none that can be asked for"
	}
	return strings.Join(list, ", ")
}

func (c *cause) choices(files []scm.File) []string {
	var paths []string
	for _, f := range files[:min(len(files), choicesMax)] {
		paths = append(paths, f.Path)
	}
	return paths
}
