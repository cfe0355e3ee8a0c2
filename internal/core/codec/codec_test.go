package codec

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

type base struct {
	At time.Time `json:"at"`
}

type greeted struct {
	base
	Who   string    `json:"who"`
	Times int64     `json:"times,omitempty"`
	Kind  uint64    `json:"kind,omitempty"`
	Loud  bool      `json:"loud,omitempty"`
	To    []string  `json:"to,omitempty"`
	Lists []listed  `json:"lists"`
	Next  *listed   `json:"next,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

type listed struct {
	N    int8   `json:"n"`
	Flag []bool `json:"flag"`
}

func (*greeted) Name() string { return "Greeted" }

var form = FormOf(new(greeted))

const (
	anID     = "rnr_01m8pshs1mfbv9qcryac450hgf"
	aDigest  = "sha256:525b4db2b5bcfab2053b1562b232a03ea5305c2b1a93dc17fcbfb47e4bd195f2"
	aCommit  = "7cbe9ab953ec139b2543d5985ccf4738a26f5988"
	anObject = "tnt_default/log-bundles/6c/6ca8d725a592d6efbcdab9f9f7b7d36ac92d09b940e4d1796c63ca3b206200a4"
)

func TestTextForm(t *testing.T) {
	data, err := form.Encode([]*greeted{{Who: "<a & b>"}, {Who: "c"}}, FormatPacked-1)
	if err != nil {
		t.Fatal(err)
	}
	one := `{"t":"Greeted","d":{"at":"0001-01-01T00:00:00Z","who":"<a & b>","lists":null}}`
	if want := "[" + one + "," + strings.Replace(one, "<a & b>", "c", 1) + "]"; string(data) != want {
		t.Errorf("got %s", data)
	}
	events, err := form.Decode(data)
	if err != nil || len(events) != 2 || events[0].Who != "<a & b>" {
		t.Errorf("got %v, %v", events, err)
	}
}

func TestTextFormRefuses(t *testing.T) {
	for text, says := range map[string]string{
		`[{"t":"Gone","d":{}}]`: "unknown type", `[{"t":"Greeted","d":{"x":1}}]`: "unknown field", `[] []`: "more after",
		`[{"t":"Greeted"}]`: "decode event Greeted", ``: "decode events", `[{"t":"Greeted","d":{},"e":1}]`: "unknown field",
	} {
		if _, err := form.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("wrote a function")
	}
}

// samples have every kind of value, in every way that it can be written.
func samples() []*greeted {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	many := make([]string, 300) // over what is found without a map, and what gets room at once
	for i := range many {
		many[i] = strings.Repeat("text", i%40) + "-" + string(rune('a'+i%26))
	}
	return []*greeted{
		{},
		{base: base{at}, Who: "ab", Times: 63, Kind: 64, Loud: true, Until: at.Add(time.Hour)},
		{Times: -1, Kind: 1<<64 - 1, To: []string{"", "succeeded", anID, anID + "/10/0", anID, aDigest, aCommit, anObject}},
		{Times: -1 << 63, To: []string{anObject, aDigest, strings.ToUpper(aCommit), "sha256:", anID[:20], "_" + anID[4:]}},
		{Times: 1<<63 - 1, Lists: []listed{}, Next: &listed{Flag: []bool{true, false}}},
		{Lists: []listed{{N: -128}, {}, {N: 127, Flag: []bool{}}}, Until: at.Add(999)},
		{base: base{time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)}, Until: time.Date(9999, 12, 31, 23, 59, 59, 1e9-1, time.UTC)},
		{Who: strings.Repeat("long ", 1000), To: many},
		{Who: "deps_" + aCommit + "_" + aCommit, To: []string{
			"oci_" + aCommit + "/blobs/" + aDigest, "tnt_" + anID[4:] + "/log-bundles/6c/" + anObject[len(anObject)-64:],
			anID + "_" + anID, anID + "/" + anID + "/" + aCommit, "x_" + aDigest[7:] + "_" + aDigest + "_" + anID,
			aDigest + "/" + aDigest[7:], strings.Repeat("_", 300), anID + "_" + anID[4:] + "_" + anID[4:], "/" + aDigest[7:],
		}},
		{Who: "\xff\x00", To: []string{strings.Repeat("x/", 120) + anID, "zzz_8" + anID[5:]}},
	}
}

func TestPackedRoundTrip(t *testing.T) {
	all := samples()
	for i := range len(all) + 1 {
		some := all
		if i < len(all) {
			some = all[i : i+1]
		}
		data, err := form.Encode(some, Format)
		if err != nil {
			t.Fatal(err)
		}
		again, err := form.Decode(data)
		if err != nil || !reflect.DeepEqual(again, some) {
			t.Errorf("%d comes back as another value: %v\n%x", i, err, data)
		}
		for cut := range data { // every beginning of a text is no text, or one of fewer events
			if part, err := form.Decode(data[:cut]); err == nil && len(part) >= len(some) {
				t.Fatalf("%d: %d of %d bytes are understood", i, cut, len(data))
			}
		}
	}
}

// TestPackedAndTextSayTheSame holds what was read from one form against the other.
func TestPackedAndTextSayTheSame(t *testing.T) {
	for i, s := range samples() {
		if !strings.Contains(s.Who, "\xff") { // JSON has no such strings
			text, err := form.Encode([]*greeted{s}, FormatPacked-1)
			if err != nil {
				t.Fatal(err)
			}
			again, err := form.Decode(text)
			if err != nil || !reflect.DeepEqual(again, []*greeted{s}) {
				t.Errorf("%d: %v\n%+v\n%+v", i, err, again[0], s)
			}
		}
	}
}

// TestPackedBytes writes out what the comment in packed.go says.
func TestPackedBytes(t *testing.T) {
	at := time.Date(2020, 1, 1, 0, 0, 0, 3000, time.UTC)
	data, err := form.Encode([]*greeted{{base: base{at}, Who: "who", To: []string{"who", "success"}, Until: at}}, Format)
	if err != nil {
		t.Fatal(err)
	}
	want := "01" + // packed
		"27" + hexOf("Greeted") + // a string of seven bytes, kept as the first
		"80" + "0506" + // the word "at"; a time three microseconds after the epoch
		"23" + hexOf("who") + "0b01" + // the name of the field; the string that was kept second
		"22" + hexOf("to") + "0402" + "0b01" + "87" + // a list of two: the same string, the word "success"
		hexByte(wordBase+byte(wordOf("until"))) + "0500" + "00" // no time after the first; the end
	if got := hex.EncodeToString(data); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func hexOf(s string) string     { return hex.EncodeToString([]byte(s)) }
func hexByte(b byte) string     { return hex.EncodeToString([]byte{b}) }
func greetedIs(s string) string { return "01" + "27" + hexOf("Greeted") + s }

// Promises: [FORMAT-2].
func TestPackedRefuses(t *testing.T) {
	who, times, to := "23"+hexOf("who"), "25"+hexOf("times"), "22"+hexOf("to")
	at, until := "80", hexByte(wordBase+byte(wordOf("until")))
	for text, says := range map[string]string{
		"01" + "24" + hexOf("Gone") + "00":                              "unknown type",
		"01" + "40":                                                     "byte 0x40 for a string",
		"01" + "0aff01":                                                 "newer release",
		"01" + "0affffffffffffffffff01":                                 "newer release",
		greetedIs(""):                                                   "too early",
		greetedIs("21" + hexOf("x") + "40" + "00"):                      "unknown field",
		greetedIs("81" + "40" + "00"):                                   "unknown field",
		greetedIs(who + "2161" + "0b01" + "2161" + "00"):                "comes twice",
		greetedIs(who + "40" + "00"):                                    "for a string",
		greetedIs(who + "0b09" + "00"):                                  "string 9 of 2",
		greetedIs(who + "09ff01" + "00"):                                "too early",
		greetedIs(who + "0f" + "0f2161216121610000"):                    "for a string",
		greetedIs(who + "0c0000"):                                       "too early",
		greetedIs(times + "01" + "00"):                                  "byte 0x01 for a int64",
		greetedIs(times + "07" + "ffffffffffffffffff01" + "00"):         "no int64",
		greetedIs(times + "07" + "ff"):                                  "too early",
		greetedIs(hexByte(wordBase+byte(wordOf("kind"))) + "0801"):      "no uint64",
		greetedIs("24" + hexOf("loud") + "40"):                          "for a bool",
		greetedIs(to + "21" + hexOf("a") + "00"):                        "for a []string",
		greetedIs(to + "04" + "ffffffff7f" + "00"):                      "too early",
		greetedIs("25" + hexOf("lists") + "0401" + "0421" + hexOf("n")): "for a codec.listed",
		greetedIs("25" + hexOf("lists") + "0401" + "0321" + hexOf("n") + "07ff01" + "00" + "00"): "no int8",
		greetedIs(at + "40" + "00"):                        "for a time.Time",
		greetedIs(at + "05" + "ffffffffffffffff7f" + "00"): "year",
		greetedIs(until + "0600e807" + "00"):               "nanoseconds",
		greetedIs("00" + "2100"):                           "unknown type",
	} {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := form.Decode(data); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s (%s): %v, %v", text, says, v, err)
		}
	}
	long, _ := hex.DecodeString(greetedIs(who + "0f" + "09ac02" + strings.Repeat("61", 300) + "2161" + "00"))
	if _, err := form.Decode(long); err == nil || !strings.Contains(err.Error(), "parts") {
		t.Errorf("a long string of parts: %v", err)
	}
	if _, err := form.Encode([]*greeted{{base: base{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}}, Format); err == nil {
		t.Error("wrote a time that JSON can't say")
	}
}

func TestShapesRefuse(t *testing.T) {
	for name, make := range map[string]func(){
		"a map":               func() { RecordOf[struct{ M map[string]int }]() },
		"a float":             func() { RecordOf[struct{ F float64 }]() },
		"a pointer to a time": func() { RecordOf[struct{ T *time.Time }]() },
		"a form of its own":   func() { RecordOf[struct{ A named }]() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s has a shape", name)
				}
			}()
			make()
		}()
	}
}

type named struct{ s string }

func (n named) MarshalText() ([]byte, error) { return []byte(n.s), nil }

func TestRecord(t *testing.T) {
	form := RecordOf[greeted]()
	for i, s := range samples() {
		data, err := form.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		var again greeted
		if err := form.Decode(data, &again); err != nil || !reflect.DeepEqual(&again, s) {
			t.Errorf("%d comes back as another value: %v", i, err)
		}
		if err := form.Decode(append(bytes.Clone(data), 0), new(greeted)); err == nil {
			t.Errorf("%d: more after the value is understood", i)
		}
	}
	for _, data := range []string{"", "{}", "\x01"} {
		if err := form.Decode([]byte(data), new(greeted)); err == nil {
			t.Errorf("%q is understood", data)
		}
	}
}

// Promises: [FORMAT-1].
func TestWordsKeepTheirPlaces(t *testing.T) {
	golden, err := os.ReadFile("testdata/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(golden))
	if len(words) != len(want) || wordsOf(Format) != len(want) {
		t.Errorf("%d words, of which the newest readers know %d; the file has %d", len(words), wordsOf(Format), len(want))
	}
	for i := range min(len(words), len(want)) {
		if words[i] != want[i] {
			t.Fatalf("word %d is %q and was %q: what is stored means another thing now", i, words[i], want[i])
		}
	}
	if len(wordPlaces) != len(words) {
		t.Error("a word stands there twice")
	}
	if wordsOf(FormatPacked-1) != 0 || wordsOf(Format+7) != len(words) {
		t.Error("readers are thought to know other words than they do")
	}
}

// TestReadersThatKnowFewerWords: what is written for them uses none of the later ones.
func TestReadersThatKnowFewerWords(t *testing.T) {
	f := FormOf(new(greeted))
	p := packer{words: 1, base: epoch}
	if err := p.fields(f.byName["Greeted"].shape, reflect.ValueOf(samples()[1]).Elem()); err != nil {
		t.Fatal(err)
	}
	u := unpacker{in: p.out, base: epoch}
	var again greeted
	if err := u.fields(f.byName["Greeted"].shape, reflect.ValueOf(&again).Elem()); err != nil ||
		!reflect.DeepEqual(&again, samples()[1]) {
		t.Errorf("comes back as another value: %v", err)
	}
	if bytes.IndexFunc(p.out, func(r rune) bool { return r == rune(wordBase+1) }) >= 0 {
		t.Error("a word that they don't know")
	}
}

// FuzzPackedStrings packs strings made of what strings are taken apart by.
func FuzzPackedStrings(f *testing.F) {
	pieces := []string{"_", "/", anID[4:], aCommit, aDigest, aDigest[7:], anObject, "rnr_", "tnt_default", "", "x",
		"success"}
	f.Add([]byte{0, 2, 0, 2, 1, 5})
	f.Fuzz(func(t *testing.T, picks []byte) {
		g := &greeted{}
		var text string
		for _, b := range picks {
			if text += pieces[int(b)%len(pieces)]; b >= 128 {
				g.To, text = append(g.To, text), ""
			}
		}
		g.Who = text
		data, err := form.Encode([]*greeted{g, g}, Format)
		if err != nil {
			t.Fatal(err)
		}
		again, err := form.Decode(data)
		if err != nil || !reflect.DeepEqual(again, []*greeted{g, g}) {
			t.Fatalf("%q comes back as another value: %v", append(g.To, text), err)
		}
	})
}

func FuzzPacked(f *testing.F) {
	for _, s := range samples() {
		if data, err := form.Encode([]*greeted{s, s}, Format); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := form.Decode(data)
		if err != nil {
			return
		}
		once, err := form.Encode(events, Format)
		if err != nil {
			t.Fatalf("decoded but can't be encoded: %v", err)
		}
		again, err := form.Decode(once)
		if err != nil || !reflect.DeepEqual(again, events) {
			t.Fatalf("the packed form is not stable: %v\n%x\n%x", err, data, once)
		}
	})
}
