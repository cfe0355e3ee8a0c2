package web

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// presentable gives a message whose texts are safe to look at: characters that reorder
// what follows, or that can't be seen, become U+FFFD, and a text without an end is cut
// with a mark. It answers with m itself when there was nothing to do, which is the rule.
//
// Trust: names, titles, reasons and messages come from repositories, workflows and
// runners. Escaping makes them harmless to the page; this keeps them from showing a
// reader something else than what they are.
func presentable[M proto.Message](m M) M {
	if !dirty(m.ProtoReflect()) {
		return m
	}
	copied := proto.CloneOf(m)
	polish(copied.ProtoReflect())
	return copied
}

// eachText calls visit for every text of a message until it says stop, and puts back
// what visit returns.
func eachText(m protoreflect.Message, visit func(string) (text string, again bool)) bool {
	more := true
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		put := func(set func(protoreflect.Value), old string) {
			var text string
			if text, more = visit(old); text != old {
				set(protoreflect.ValueOfString(text))
			}
		}
		switch {
		case field.IsMap():
			return true // no answer that a page shows has one
		case field.IsList():
			list := value.List()
			for i := 0; i < list.Len() && more; i++ {
				switch field.Kind() {
				case protoreflect.StringKind:
					put(func(v protoreflect.Value) { list.Set(i, v) }, list.Get(i).String())
				case protoreflect.MessageKind:
					more = eachText(list.Get(i).Message(), visit)
				}
			}
		case field.Kind() == protoreflect.StringKind:
			put(func(v protoreflect.Value) { m.Set(field, v) }, value.String())
		case field.Kind() == protoreflect.MessageKind:
			more = eachText(value.Message(), visit)
		}
		return more
	})
	return more
}

func dirty(m protoreflect.Message) bool {
	found := false
	eachText(m, func(text string) (string, bool) {
		found = found || len(text) > textRunesMax || strings.ContainsFunc(text, unseen)
		return text, !found
	})
	return found
}

func polish(m protoreflect.Message) {
	eachText(m, func(text string) (string, bool) {
		text = strings.Map(func(r rune) rune {
			if unseen(r) {
				return utf8.RuneError
			}
			return r
		}, text)
		if n := utf8.RuneCountInString(text); n > textRunesMax {
			runes := []rune(text)
			text = fmt.Sprintf("%s … (%s more characters)", string(runes[:textRunesMax]), count(int64(n-textRunesMax)))
		}
		return text, true
	})
}

// unseen is true of control characters and of those that change the direction of the
// text after them.
func unseen(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	case r == 0x200e, r == 0x200f, r == 0x061c, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	case r == 0x2028, r == 0x2029, r == 0xfeff:
		return true
	}
	return false
}
