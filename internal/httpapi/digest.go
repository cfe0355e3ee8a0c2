package httpapi

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// digestOf makes the digest of a request. Protobuf's own deterministic encoding may change
// from one build of this program to the next, and keys outlive builds, so the form is our
// own: fields by number, each as number, length and content; maps by key.
func digestOf(message proto.Message) domain.Digest {
	m := message.ProtoReflect()
	return domain.DigestOf(appendMessage(append([]byte(m.Descriptor().FullName()), 0), m))
}

func appendMessage(out []byte, m protoreflect.Message) []byte {
	var fields []protoreflect.FieldDescriptor
	m.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, field)
		return true
	})
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int {
		return cmp.Compare(a.Number(),
			b.Number())
	})
	for _, field := range fields {
		out = binary.AppendUvarint(out, uint64(field.Number()))
		out = appendSized(out, appendField(nil, field, m.Get(field)))
	}
	// Fields that this build doesn't know are part of what the client asked for.
	return appendSized(out, m.GetUnknown())
}

func appendField(out []byte, field protoreflect.FieldDescriptor, value protoreflect.Value) []byte {
	switch {
	case field.IsMap():
		var entries [][]byte
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			entry := appendSized(nil, appendScalar(nil, key.Value()))
			entries = append(entries, appendSized(entry, appendScalar(nil, value)))
			return true
		})
		slices.SortFunc(entries, slices.Compare)
		for _, entry := range entries {
			out = appendSized(out, entry)
		}
	case field.IsList():
		for i := range value.List().Len() {
			out = appendSized(out, appendScalar(nil, value.List().Get(i)))
		}
	default:
		out = appendScalar(out, value)
	}
	return out
}

func appendScalar(out []byte, value protoreflect.Value) []byte {
	switch v := value.Interface().(type) {
	case protoreflect.Message:
		return appendMessage(out, v)
	case string:
		return append(out, v...)
	case []byte:
		return append(out, v...)
	case bool:
		if v {
			return append(out, 1)
		}
		return append(out, 0)
	case int32:
		return binary.BigEndian.AppendUint64(out, uint64(int64(v)))
	case int64:
		return binary.BigEndian.AppendUint64(out, uint64(v))
	case uint32:
		return binary.BigEndian.AppendUint64(out, uint64(v))
	case uint64:
		return binary.BigEndian.AppendUint64(out, v)
	case float32:
		return binary.BigEndian.AppendUint64(out, math.Float64bits(float64(v)))
	case float64:
		return binary.BigEndian.AppendUint64(out, math.Float64bits(v))
	case protoreflect.EnumNumber:
		return binary.BigEndian.AppendUint64(out, uint64(int64(v)))
	default:
		panic(fmt.Sprintf("digest of a request: value of type %T", v))
	}
}

func appendSized(out, content []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(content))), content...)
}
