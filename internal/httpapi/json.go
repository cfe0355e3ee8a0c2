package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The JSON of this API: names as in the contract, every field present, and an unknown
// field refused, because a field that is silently ignored is a wish that is silently lost.
var (
	jsonOut = protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}
	jsonIn  = protojson.UnmarshalOptions{}
)

// jsonCodec is the same form for the RPC protocols.
func jsonCodec() *connectproto.JSONCodec {
	codec := connectproto.NewJSONCodec()
	codec.MarshalOptions, codec.UnmarshalOptions = jsonOut, jsonIn
	return codec
}

// encodeJSON writes compact JSON: protojson varies its spaces on purpose, and answers
// should be the same bytes for the same message.
func encodeJSON(message proto.Message) ([]byte, error) {
	loose, err := jsonOut.Marshal(message)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Grow(len(loose) + 1)
	if err := json.Compact(&out, loose); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeJSON(w http.ResponseWriter, code int, message proto.Message) {
	content, err := encodeJSON(message)
	if err != nil { // only a string that is not UTF-8 can do this
		code, content = http.StatusInternalServerError, []byte(`{"code":"internal","message":"unprintable answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(content, '\n'))
}
