package codec

import (
	"strings"
	"testing"
)

type greeted struct {
	Who string `json:"who"`
}

func (*greeted) Name() string { return "Greeted" }

func empty(name string) (*greeted, bool) { return new(greeted), name == "Greeted" }

func TestRoundTrip(t *testing.T) {
	data, err := Encode([]*greeted{{"<a & b>"}, {"c"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"t":"Greeted","d":{"who":"<a & b>"}},{"t":"Greeted","d":{"who":"c"}}]`; string(data) != want {
		t.Errorf("got %s", data)
	}
	events, err := Decode(data, empty)
	if err != nil || len(events) != 2 || events[0].Who != "<a & b>" {
		t.Errorf("got %v, %v", events, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for text, says := range map[string]string{
		`[{"t":"Gone","d":{}}]`: "unknown type", `[{"t":"Greeted","d":{"x":1}}]`: "unknown field", `[] []`: "more after",
		`[{"t":"Greeted"}]`: "decode event Greeted", ``: "decode events", `[{"t":"Greeted","d":{},"e":1}]`: "unknown field",
	} {
		if _, err := Decode([]byte(text), empty); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("wrote a function")
	}
}
