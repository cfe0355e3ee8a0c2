package plan

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Call makes a job the caller of another workflow. It runs nothing itself: the jobs of the called
// workflow are jobs of the same plan that name it in In, and it concludes as they do.
type Call struct {
	// Workflow is the reference as it is written; Component is what it was resolved to, empty for
	// a file of the run's own commit. Path is the called file's path in its repository.
	Workflow  string `json:"workflow"`
	Component string `json:"component,omitempty"`
	Path      string `json:"path"`
	Name      string `json:"name"` // the called workflow's name, or its path
	// Inputs are all inputs that the called workflow declares, in its order. A value is a template
	// in the contexts of the caller's with; it becomes a value of the type when the call begins.
	Inputs []Input `json:"inputs,omitempty"`
	// Outputs are templates in the contexts github, jobs and inputs of the called workflow. They
	// are evaluated when its jobs have concluded.
	Outputs []Binding `json:"outputs,omitempty"`
	Secrets *Secrets  `json:"secrets,omitempty"`
}

// Secrets say which secrets a called workflow sees: all of the caller's, or the named ones.
type Secrets struct {
	Inherit bool      `json:"inherit,omitempty"`
	Named   []Binding `json:"named,omitempty"` // a template over the caller's secrets
}

// Concurrency is a group of which one member goes on at a time. Its texts are templates.
type Concurrency struct {
	Group  string `json:"group"`
	Cancel string `json:"cancel_in_progress,omitempty"` // "", "true", "false" or a template
	// Queue is "" or "single" for one pending member, whom the next one replaces; "max" for all of
	// them, first in, first out.
	Queue string `json:"queue,omitempty"`
	Line  int    `json:"line"`
}

// QueueMax is the word of Queue for a queue that keeps everybody.
const QueueMax = "max"

// Environment is the deployment boundary that a job acts in. It is recorded; its texts are templates.
type Environment struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
	// NoDeployment: the job uses the environment and is no deployment to it.
	NoDeployment bool `json:"no_deployment,omitempty"`
}

// Container is the image that the steps of a job, or a service beside them, run in. All of its
// texts are templates.
type Container struct {
	Image      string    `json:"image"`
	Env        []Binding `json:"env,omitempty"`
	Ports      []string  `json:"ports,omitempty"`
	Volumes    []string  `json:"volumes,omitempty"`
	Options    string    `json:"options,omitempty"`
	User       string    `json:"username,omitempty"` // credentials of the registry
	Password   string    `json:"password,omitempty"` // a template that names a secret, never a value
	Entrypoint string    `json:"entrypoint,omitempty"`
	Command    string    `json:"command,omitempty"`
}

// Service is a container beside a job.
type Service struct {
	Name      string    `json:"name"` // its host name for the steps
	Container Container `json:"container"`
}

// Literal is the context inputs of the called workflow as JSON, when none of the values is a
// template that has to be evaluated. ok is false otherwise.
func (c *Call) Literal() (inputs string, ok bool) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	text := func(v string) {
		_ = enc.Encode(v) // of a string into memory
		out.Truncate(out.Len() - 1)
	}
	out.WriteByte('{')
	for i, in := range c.Inputs {
		if strings.Contains(in.Value, "${{") {
			return "", false
		}
		if i > 0 {
			out.WriteByte(',')
		}
		text(in.Name)
		out.WriteByte(':')
		if in.Type == InputBoolean || in.Type == InputNumber {
			out.WriteString(in.Value)
		} else {
			text(in.Value)
		}
	}
	out.WriteByte('}')
	return out.String(), json.Valid(out.Bytes())
}
