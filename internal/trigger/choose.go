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
	event       string // that pick asked with
}

func (c *cause) inspect(file scm.File) inspected {
	return c.triggers.remembered.inspect(file, c.triggers.cfg.Limits)
}

// choose finds the one workflow that a request means and fixes its event. A file that is
// named is taken even when it is broken: compiling it says what is wrong.
func (c *cause) choose() (scm.File, error) {
	if len(c.files) == 0 {
		return scm.File{}, reject(domain.CodeWorkflowNotFound, "workflow",
			"Commit %.12s has no workflow; add one in %s or %s.%s", c.commit.ID, workflow.FolderFairlead,
			workflow.FolderGitHub, c.linked(func(string) bool { return true }))
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
	found, reasons := pick(all, c.request.Event, c.ref)
	if len(found) > 0 {
		first := found[0].file.Path
		found = slices.DeleteFunc(found, func(in inspected) bool { return c.stopped[in.file.Path] != "" })
		if len(found) == 0 {
			return scm.File{}, c.stop(first)
		}
	}
	for _, link := range c.links[:min(len(c.links), choicesMax)] {
		reasons = append(reasons, aLink(link))
	}
	switch len(found) {
	case 1:
		c.request.Event = found[0].event
		return found[0].file, nil
	case 0:
		if broken := failures(all); len(broken) > 0 {
			return scm.File{}, &Refusal{Diagnostics: broken, Choices: c.choices(c.files),
				Rejection: &domain.Rejection{Code: domain.CodeWorkflowInvalid, Field: "workflow",
					Message: fmt.Sprintf("No workflow of commit %.12s starts here: %s.", c.commit.ID, strings.Join(reasons, "; "))}}
		}
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
			Message: fmt.Sprintf("Several workflows match: %s. Name one.", strings.Join(choices, ", "))}}
}

// failures are the findings of files that can't even be read for what starts them.
func failures(all []inspected) (out []workflow.Diagnostic) {
	for _, in := range all {
		if workflow.Failed(in.diagnostics) {
			out = append(out, in.diagnostics...)
		}
	}
	return out
}

// pick lists the workflows that the event starts. Without an event each workflow is asked
// with its own: workflow_dispatch where it declares that, else push. So a workflow for
// pushes is not passed over in silence because another one can be dispatched.
func pick(all []inspected, event, ref string) (found []inspected, reasons []string) {
	for _, in := range all {
		in.event = eventOf(in.triggers, event)
		ok, reason := in.triggers.Match(workflow.Event{Name: in.event, Ref: ref,
			Unknown: "who asks for a run means all files"})
		switch {
		case ok:
			found = append(found, in)
		case workflow.Failed(in.diagnostics):
			reasons = append(reasons, in.file.Path+" can't be read: "+firstError(in.diagnostics))
		default:
			reasons = append(reasons, in.file.Path+": "+reason)
		}
	}
	return found, reasons[:min(len(reasons), choicesMax)]
}

// eventOf is the event that a request without one means for a workflow.
func eventOf(t workflow.Triggers, asked string) string {
	switch {
	case asked != "":
		return asked
	case t.Declares(workflow.EventDispatch):
		return workflow.EventDispatch
	}
	return workflow.EventPush
}

// named finds the workflow that the request names by path or file name.
func (c *cause) named() (scm.File, error) {
	name := strings.TrimPrefix(path.Clean(c.request.Workflow), "./")
	at := slices.IndexFunc(c.files, func(f scm.File) bool { return f.Path == name })
	if at < 0 {
		at = slices.IndexFunc(c.files, func(f scm.File) bool { return called(f.Path, name) })
	}
	if at < 0 {
		return scm.File{}, &Refusal{Choices: c.choices(c.files),
			Rejection: &domain.Rejection{Code: domain.CodeWorkflowNotFound, Field: "workflow",
				Message: fmt.Sprintf("Commit %.12s has no workflow %.100q.%s", c.commit.ID, c.request.Workflow,
					c.linked(func(p string) bool { return p == name || called(p, name) }))}}
	}
	if err := c.stop(c.files[at].Path); err != nil {
		return scm.File{}, err
	}
	in := c.inspect(c.files[at])
	if workflow.Failed(in.diagnostics) {
		if c.request.Event == "" {
			c.request.Event = workflow.EventPush
		}
		return in.file, nil
	}
	event := eventOf(in.triggers, c.request.Event)
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

// called reports whether a workflow's file has that name, with or without its ending.
func called(file, name string) bool {
	base := path.Base(file)
	return base == name || strings.TrimSuffix(base, path.Ext(base)) == name
}

// linked says of workflows that are meant and are symbolic links why they do not count, in
// sentences that follow another one.
func (c *cause) linked(meant func(path string) bool) string {
	var out strings.Builder
	for _, link := range c.links[:min(len(c.links), choicesMax)] {
		if meant(link) {
			out.WriteString(" " + aLink(link) + ".")
		}
	}
	return out.String()
}

func aLink(path string) string {
	return path + " is a symbolic link, and links are not followed: commit the file itself"
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
