package httpapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// readQuery sets a message's fields from a query: scalars by their name in the contract,
// lists by repeating them. Variables of the path are not taken from the query.
//
// Trust: query comes from anybody.
func readQuery(query string, message protoreflect.Message, variables []protoreflect.Name) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errArgument("", "The query is not well formed.")
	}
	fields := message.Descriptor().Fields()
	for name, texts := range values {
		field := fields.ByName(protoreflect.Name(name))
		if field == nil || slices.Contains(variables, field.Name()) || field.IsMap() ||
			field.Kind() == protoreflect.MessageKind {
			return errArgument(cleanName(name), "This path has no such query parameter.")
		}
		if !field.IsList() && len(texts) > 1 {
			return errArgument(name, "The query gives this parameter more than once.")
		}
		for _, text := range texts {
			value, ok := scalar(field.Kind(), text)
			if !ok {
				return errArgument(name, "The query's value is not a "+kindWord(field.Kind())+".")
			}
			if field.IsList() {
				message.Mutable(field).List().Append(value)
			} else {
				message.Set(field, value)
			}
		}
	}
	return nil
}

func scalar(kind protoreflect.Kind, text string) (protoreflect.Value, bool) {
	switch kind {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), validText(text)
	case protoreflect.BoolKind:
		value, err := strconv.ParseBool(text)
		return protoreflect.ValueOfBool(value), err == nil
	case protoreflect.Int32Kind:
		value, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfInt32(int32(value)), err == nil
	case protoreflect.Int64Kind:
		value, err := strconv.ParseInt(text, 10, 64)
		return protoreflect.ValueOfInt64(value), err == nil
	case protoreflect.Uint64Kind:
		value, err := strconv.ParseUint(text, 10, 64)
		return protoreflect.ValueOfUint64(value), err == nil
	}
	return protoreflect.Value{}, false
}

func kindWord(kind protoreflect.Kind) string {
	switch kind {
	case protoreflect.StringKind:
		return "text in UTF-8"
	case protoreflect.BoolKind:
		return "truth value (true or false)"
	}
	return "whole number in its bounds"
}

func validText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// cleanName makes a hostile parameter name fit for an answer.
func cleanName(name string) string {
	if len(name) > 64 || !utf8.ValidString(name) {
		return "query"
	}
	return name
}
