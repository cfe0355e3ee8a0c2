package expr

import (
	"strconv"
	"strings"
)

// evalFormat is format(template, arguments…): {0} is the first argument, {{ and }} are
// braces. An argument is evaluated when the template first asks for it.
func evalFormat(ev *evaluator, n *callNode) (Value, *Error) {
	first, err := ev.eval(n.args[0])
	if err != nil {
		return Value{}, err
	}
	f := &formatter{ev: ev, call: n, rest: first.Text(), cache: make([]*string, len(n.args)-1)}
	for f.rest != "" {
		if err := f.next(); err != nil {
			return Value{}, err
		}
	}
	return String(f.out.String()), nil
}

type formatter struct {
	ev    *evaluator
	call  *callNode
	rest  string
	out   strings.Builder
	cache []*string
}

// next takes text up to and including one brace construct.
func (f *formatter) next() *Error {
	if err := f.ev.step(f.call, 1); err != nil {
		return err
	}
	at := strings.IndexAny(f.rest, "{}")
	if at < 0 {
		return f.take(len(f.rest), len(f.rest))
	}
	if strings.HasPrefix(f.rest[at+1:], f.rest[at:at+1]) { // {{ or }}
		return f.take(at+1, at+2)
	}
	if f.rest[at] == '}' {
		return f.malformed("a single } must be written }}")
	}
	shut := strings.IndexByte(f.rest[at:], '}')
	if shut < 0 {
		return f.malformed("a single { must be written {{")
	}
	place := f.rest[at+1 : at+shut]
	index, err := strconv.ParseUint(place, 10, 8)
	if err != nil {
		return f.malformed("{" + short(place) + "} is not a placeholder like {0}")
	}
	if int(index) >= len(f.cache) {
		return f.malformed("{" + place + "} has no argument")
	}
	if err := f.take(at, at+shut+1); err != nil {
		return err
	}
	return f.argument(int(index))
}

// take writes the first count bytes of the rest and drops the first drop.
func (f *formatter) take(count, drop int) *Error {
	if err := f.ev.build(f.call, count); err != nil {
		return err
	}
	f.out.WriteString(f.rest[:count])
	f.rest = f.rest[drop:]
	return nil
}

func (f *formatter) argument(index int) *Error {
	if f.cache[index] == nil {
		v, err := f.ev.eval(f.call.args[index+1])
		if err != nil {
			return err
		}
		text := v.Text()
		f.cache[index] = &text
	}
	if err := f.ev.build(f.call, len(*f.cache[index])); err != nil {
		return err
	}
	f.out.WriteString(*f.cache[index])
	return nil
}

func (f *formatter) malformed(why string) *Error {
	return fail(CodeFailed, f.call.at, "format: %s", why)
}
