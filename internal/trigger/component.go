package trigger

import (
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// localComponents are the workflow files of the run's commit, as other workflows call them.
func localComponents(files []scm.File) workflow.Components {
	out := make(workflow.Components, len(files))
	for _, f := range files {
		if f.Link {
			continue // nothing follows them
		}
		r := workflow.Reference{Path: f.Path}
		out[r.String()] = workflow.Component{Reference: r, File: f.Path, Text: f.Bytes}
	}
	return out
}

// keepCalled stores the files that a plan calls, each once, and names them for the snapshot.
func (c *cause) keepCalled(p *compiled, objects *objects) []snapshot.Component {
	var out []snapshot.Component
	seen := map[string]bool{}
	for i := range p.plan.Jobs {
		call := p.plan.Jobs[i].Call
		if call == nil || call.Component != "" || seen[call.Path] {
			continue
		}
		seen[call.Path] = true
		r := workflow.Reference{Path: call.Path}
		if file, ok := c.components[r.String()]; ok {
			out = append(out, snapshot.Component{Name: r.String(), Digest: string(objects.add(file.Text))})
		}
	}
	return out
}
