package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// JSON writes a message as the API's REST paths do: names as in the contract, every field
// present, one line.
func JSON(message proto.Message) ([]byte, error) {
	loose, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", message.ProtoReflect().Descriptor().Name(), err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, loose); err != nil {
		return nil, fmt.Errorf("encode %s: %w", message.ProtoReflect().Descriptor().Name(), err)
	}
	return out.Bytes(), nil
}

func withAnswer(err *connect.Error, answer *fairleadv1.ErrorInfo) error {
	detail, problem := connectproto.NewErrorDetail(answer)
	if problem != nil {
		return err
	}
	return err.WithDetail(detail).WithRemote()
}
