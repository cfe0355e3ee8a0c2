package trigger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// object is a JSON object under construction. Maps encode with sorted keys, so the same
// content is the same bytes.
type object = map[string]any

// githubJSON is the github context as far as it is the same for every attempt: who makes
// a manifest adds run_id, run_number, run_attempt, job, token and the runner's paths.
func (c *cause) githubJSON(file scm.File, name string, inputs []plan.Input) []byte {
	refName, refType := workflow.RefName(c.ref)
	owner, _, _ := strings.Cut(c.row.Name, "/")
	return canonical(object{
		"actor": c.actor(), "triggering_actor": c.actor(),
		"event_name": c.request.Event, "event": c.payload(file, inputs),
		"ref": c.ref, "ref_name": refName, "ref_type": refType, "ref_protected": c.protected,
		"base_ref": "", "head_ref": "", "sha": c.commit.ID,
		"repository": c.row.Name, "repository_owner": owner, "repository_id": string(c.row.Repository),
		"repositoryUrl": c.row.URL, "server_url": c.triggers.cfg.ServerURL,
		"workflow": name, "workflow_ref": c.row.Name + "/" + file.Path + "@" + c.ref, "workflow_sha": c.textCommit(file.Path),
	})
}

// payload is the event as GitHub sends it, in the fields that workflows read.
func (c *cause) payload(file scm.File, inputs []plan.Input) object {
	owner, short := path.Split(c.row.Name)
	owner = strings.TrimSuffix(owner, "/")
	if owner == "" {
		owner = short
	}
	page := ""
	if c.triggers.cfg.ServerURL != "" {
		page = c.triggers.cfg.ServerURL + "/repositories/" + string(c.row.Repository)
	}
	event := object{
		"ref": c.ref,
		"repository": object{
			"id": string(c.row.Repository), "name": short, "full_name": c.row.Name, "default_branch": c.row.DefaultBranch,
			"html_url": page, "clone_url": c.row.URL, "owner": object{"login": owner, "name": owner}, "private": true,
		},
		"sender": object{"login": c.actor(), "type": "User"},
	}
	if c.request.Event == workflow.EventDispatch {
		values := object{}
		for _, in := range inputs {
			values[in.Name] = in.Value
		}
		event["inputs"], event["workflow"] = values, file.Path
		return event
	}
	if c.request.Event == workflow.EventSchedule {
		event["schedule"] = c.cron
		return event
	}
	before := ""
	if c.push != nil {
		before = c.push.Before
	}
	if before == "" {
		before = strings.Repeat("0", len(c.commit.ID))
	}
	head := c.headCommit()
	event["before"], event["after"] = before, c.commit.ID
	event["created"], event["deleted"], event["forced"] = scm.ZeroCommit(before), false, false
	event["head_commit"], event["commits"] = head, []object{head}
	event["pusher"] = object{"name": c.actor()}
	return event
}

func (c *cause) headCommit() object {
	person := func(p scm.Person) object { return object{"name": p.Name, "email": p.Email} }
	return object{
		"id": c.commit.ID, "tree_id": c.commit.Tree, "distinct": true,
		"message":   domain.Clip(strings.TrimRight(c.commit.Message, "\n"), messageBytesMax),
		"timestamp": c.commit.Committer.When.UTC().Format(time.RFC3339),
		"author":    person(c.commit.Author), "committer": person(c.commit.Committer),
	}
}

// inputsJSON is the inputs context: booleans and numbers have their type.
func inputsJSON(inputs []plan.Input) []byte {
	values := object{}
	for _, in := range inputs {
		switch in.Type {
		case plan.InputBoolean:
			values[in.Name] = in.Value == "true"
		case plan.InputNumber:
			values[in.Name] = json.Number(in.Value)
			if !json.Valid([]byte(in.Value)) {
				values[in.Name] = in.Value // Infinity and its like have no number in JSON
			}
		default:
			values[in.Name] = in.Value
		}
	}
	return canonical(values)
}

func canonical(value object) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(fmt.Sprintf("encode context: %v", err)) // only text, booleans and checked numbers: can't happen
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}
