package syntax

// The functions below take values out of a tree that was checked. Of what does not fit,
// which was reported, they give nothing.

// scalarOf is the value of a key if it is a scalar and not empty.
func scalarOf(p Pair) *Node {
	if p.Value == nil || p.Value.Kind != Scalar || p.Value.Type == TypeNull || p.Value.unfit {
		return nil
	}
	return p.Value
}

// textOf is the value of a key if it is a scalar; an empty one counts as empty text.
func textOf(p Pair) *Node {
	if p.Value == nil || p.Value.Kind != Scalar || p.Value.unfit {
		return nil
	}
	return p.Value
}

// scalarsOf is one value or a list of values.
func scalarsOf(p Pair) []*Node {
	if p.Value == nil || p.Value.Kind != Sequence {
		if n := scalarOf(p); n != nil {
			return []*Node{n}
		}
		return nil
	}
	var out []*Node
	for _, item := range p.Value.Items {
		if n := scalarOf(Pair{item, item}); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// below are the entries of a mapping by their keys.
func below(p Pair) map[string]Pair {
	out := make(map[string]Pair)
	if p.Value == nil || p.Value.Kind != Mapping {
		return out
	}
	for _, pair := range p.Value.Pairs {
		if _, earlier := out[pair.Key.Value]; !earlier {
			out[pair.Key.Value] = pair
		}
	}
	return out
}

// pairsOf are the entries of a mapping with scalar values; an empty value is the empty text.
func pairsOf(p Pair) []Pair {
	if p.Value == nil || p.Value.Kind != Mapping {
		return nil
	}
	var out []Pair
	for _, pair := range p.Value.Pairs {
		if pair.Value.Kind == Scalar && !pair.Value.unfit && !(IsExpression(pair.Key) && !literalOnly(pair.Key.Value)) {
			out = append(out, pair)
		}
	}
	return out
}

// envOf is a mapping of variables, or the expression that gives it.
func envOf(p Pair) (variables []Variable, from *Node) {
	for _, pair := range pairsOf(p) {
		variables = append(variables, Variable{pair.Key, pair.Value})
	}
	if n := scalarOf(p); n != nil && IsExpression(n) {
		from = n
	}
	return variables, from
}

func permissionsOf(p Pair) *Permissions {
	if p.Value == nil {
		return nil
	}
	return &Permissions{Key: p.Key, All: scalarOf(p), Scopes: pairsOf(p)}
}

func defaultsOf(p Pair) Defaults {
	all := below(p)["run"]
	run := below(all)
	return Defaults{From: scalarOf(all), Shell: scalarOf(run["shell"]), WorkDir: scalarOf(run["working-directory"])}
}

func concurrencyOf(p Pair) *Concurrency {
	if p.Value == nil {
		return nil
	}
	f := below(p)
	if n := scalarOf(p); n != nil {
		return &Concurrency{Group: n}
	}
	return &Concurrency{Group: scalarOf(f["group"]), CancelInProgress: scalarOf(f["cancel-in-progress"]),
		Queue: scalarOf(f["queue"])}
}

func environmentOf(p Pair) *Environment {
	if p.Value == nil {
		return nil
	}
	if n := scalarOf(p); n != nil {
		return &Environment{Name: n}
	}
	f := below(p)
	return &Environment{Name: scalarOf(f["name"]), URL: scalarOf(f["url"]), Deployment: scalarOf(f["deployment"])}
}

func containerOf(p Pair) *Container {
	if p.Value == nil {
		return nil
	}
	if n := scalarOf(p); n != nil {
		return &Container{Image: n}
	}
	f := below(p)
	login := below(f["credentials"])
	out := &Container{
		Image: scalarOf(f["image"]), Options: scalarOf(f["options"]),
		Username: scalarOf(login["username"]), Password: scalarOf(login["password"]),
		Ports: scalarsOf(f["ports"]), Volumes: scalarsOf(f["volumes"]),
		Entrypoint: scalarOf(f["entrypoint"]), Command: scalarOf(f["command"]),
	}
	out.Env, _ = envOf(f["env"])
	return out
}

func servicesOf(p Pair) []*Container {
	if p.Value == nil || p.Value.Kind != Mapping {
		return nil
	}
	var out []*Container
	for _, pair := range p.Value.Pairs {
		service := containerOf(pair)
		service.Name = pair.Key
		out = append(out, service)
	}
	return out
}

func snapshotOf(p Pair) *Snapshot {
	if p.Value == nil {
		return nil
	}
	if n := scalarOf(p); n != nil {
		return &Snapshot{ImageName: n}
	}
	f := below(p)
	return &Snapshot{ImageName: scalarOf(f["image-name"]), If: scalarOf(f["if"]), Version: scalarOf(f["version"])}
}

// sites lists the scalars in a value that hold expressions. key names the value in messages;
// under is the definition of GitHub's schema that says what its expressions may use.
func sites(key, under string, n *Node, out []Site) []Site {
	switch {
	case n == nil:
	case n.Kind == Scalar:
		if IsExpression(n) && !n.unfit {
			out = append(out, Site{key, under, n})
		}
	case n.Kind == Sequence:
		for _, item := range n.Items {
			out = sites(key, under, item, out)
		}
	default:
		for _, pair := range n.Pairs {
			within, name := under, pair.Key.Value
			switch {
			case under == "job-environment" && name == "url":
				within = "string-runner-context-no-secrets"
			case name == "env" && (under == "container" || under == "services"):
				within = "string-runner-context"
			case name == "credentials" && (under == "container" || under == "services"):
				within = "container-registry-credentials"
			}
			out = sites(key, within, pair.Value, out)
		}
	}
	return out
}
