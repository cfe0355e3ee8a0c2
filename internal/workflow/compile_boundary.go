package workflow

import (
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// boundary compiles what is around the steps of a job: the environment that it acts in, its container
// and its services. Their expressions are checked with those of the job's other keys.
func (c *compiler) boundary(in *syntax.Job) (*plan.Environment, *plan.Container, []plan.Service) {
	var environment *plan.Environment
	if e := in.Environment; e != nil && e.Name != nil {
		environment = &plan.Environment{Name: scalarText(e.Name), URL: textOf(e.URL),
			NoDeployment: textOf(e.Deployment) == "false"}
		c.charge(e.Name.Range, environment.Name, environment.URL)
	}
	var services []plan.Service
	for _, s := range in.Services {
		container := c.container(s)
		if container == nil {
			continue // GitHub starts no service whose image is empty
		}
		services = append(services, plan.Service{Name: s.Name.Value, Container: *container})
	}
	if in.Container == nil {
		return environment, nil, services
	}
	return environment, c.container(in.Container), services
}

func (c *compiler) container(in *syntax.Container) *plan.Container {
	if in.Image == nil {
		return nil
	}
	out := &plan.Container{Image: scalarText(in.Image), Options: textOf(in.Options), User: textOf(in.Username),
		Password: textOf(in.Password), Entrypoint: textOf(in.Entrypoint), Command: textOf(in.Command)}
	out.Env = c.variables(in.Env)
	for _, n := range in.Ports {
		out.Ports = append(out.Ports, scalarText(n))
	}
	for _, n := range in.Volumes {
		out.Volumes = append(out.Volumes, scalarText(n))
	}
	c.charge(in.Image.Range, out.Image, out.Options, out.User, out.Password, out.Entrypoint, out.Command)
	c.charge(in.Image.Range, out.Ports...)
	c.charge(in.Image.Range, out.Volumes...)
	return out
}

// variables are those of a container.
func (c *compiler) variables(in []syntax.Variable) []plan.Binding {
	var out []plan.Binding
	for _, v := range in {
		out = append(out, plan.Binding{Name: v.Name.Value, Value: scalarText(v.Value)})
		c.charge(v.Name.Range, v.Name.Value, scalarText(v.Value))
	}
	return out
}

func textOf(n *syntax.Node) string {
	if n == nil {
		return ""
	}
	return scalarText(n)
}
