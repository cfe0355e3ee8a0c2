package expr

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumbersAsText(t *testing.T) { // F3
	tests := map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 1: "1", -1.5: "-1.5", 0.1: "0.1", 100: "100", 1e14: "100000000000000",
		1e15: "1E+15", 12345678901234567890.0: "1.23456789012346E+19", 123456789012345: "123456789012345",
		0.0001: "0.0001", 0.00001: "1E-05", 1.5e-7: "1.5E-07", 1e100: "1E+100", -2.5e-10: "-2.5E-10",
		math.Inf(1): "Infinity", math.Inf(-1): "-Infinity", 1.0 / 3: "0.333333333333333", 2.0 / 3: "0.666666666666667",
	}
	for number, want := range tests {
		if got := Number(number).Text(); got != want {
			t.Errorf("%g is %q, want %q", number, got, want)
		}
	}
	if got := Number(math.NaN()).Text(); got != "NaN" {
		t.Errorf("NaN is %q", got)
	}
}

func TestParseNumber(t *testing.T) {
	nan := math.NaN()
	tests := map[string]float64{
		"": 0, " \t\n": 0, " 12 ": 12, "1.5": 1.5, ".5": 0.5, "5.": 5, "-.5e1": -5, "+3": 3, "1e3": 1000, "1E-2": 0.01,
		"0x1F": 31, "0xFFFFFFFF": -1, "0x100000000": nan, "0o17": 15, "0o8": nan, "0x": nan, "0X1": nan, "-0x1": nan,
		"Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "1e999": math.Inf(1), "1_000": nan, "inf": nan, "0x1p-2": nan,
		"1e": nan, ".": nan, "-": nan, "abc": nan, "1 2": nan, "１": nan,
	}
	for text, want := range tests {
		got := ParseNumber(text)
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

// What each kind of value is as text, as a number, and as a truth.
func TestCoercions(t *testing.T) {
	tests := []struct {
		name   string
		value  Value
		text   string
		number float64
		truthy bool
	}{
		{"null", Null(), "", 0, false},
		{"true", Bool(true), "true", 1, true},
		{"false", Bool(false), "false", 0, false},
		{"0", Number(0), "0", 0, false},
		{"NaN", Number(math.NaN()), "NaN", math.NaN(), false},
		{"-1", Number(-1), "-1", -1, true},
		{"''", String(""), "", 0, false},
		{"' '", String(" "), " ", 0, true},
		{"'0'", String("0"), "0", 0, true},
		{"'false'", String("false"), "false", math.NaN(), true},
		{"array", Array(), "Array", math.NaN(), true},
		{"object", Object(), "Object", math.NaN(), true},
	}
	for _, test := range tests {
		number := test.value.number()
		same := number == test.number || math.IsNaN(number) && math.IsNaN(test.number)
		if test.value.Text() != test.text || !same || test.value.Truthy() != test.truthy {
			t.Errorf("%s: text %q, number %v, truthy %v", test.name, test.value.Text(), number, test.value.Truthy())
		}
	}
}

func TestEqualIsLoose(t *testing.T) {
	array, object := Array(Number(1)), Object()
	tests := []struct {
		a, b Value
		want bool
	}{
		{Null(), Null(), true}, {Null(), Number(0), true}, {Null(), String(""), true}, {Null(), Bool(false), true},
		{Null(), array, false}, {Bool(true), Number(1), true}, {Bool(true), String("1"), true},
		{Bool(true), String("true"), false}, {Number(1), String("1.0"), true}, {Number(0), String(""), true},
		{Number(math.NaN()), Number(math.NaN()), false}, {String("abc"), String("ABC"), true},
		{String("é"), String("É"), true},
		{String("ı"), String("I"), false}, {String("ſ"), String("S"), false}, {String("a"), Number(math.NaN()), false},
		{array, array, true}, {array, Array(Number(1)), false}, {object, object, true}, {object, Object(), false},
		{array, String("Array"), false},
	}
	for _, test := range tests {
		if Equal(test.a, test.b) != test.want || Equal(test.b, test.a) != test.want {
			t.Errorf("%s == %s is not %v", test.a.JSON(), test.b.JSON(), test.want)
		}
	}
}

func TestObjectsKeepOrderAndIgnoreCase(t *testing.T) {
	o := Object(Field{"b", Number(1)}, Field{"A", Number(2)}, Field{"B", Number(3)})
	if got := o.JSON(); got != "{\n  \"b\": 3,\n  \"A\": 2\n}" {
		t.Error(got)
	}
	if v, ok := o.Field("a"); !ok || v.Text() != "2" {
		t.Errorf("field a is %v, %v", v, ok)
	}
	if with := o.With("c", Null()); with.Len() != 3 || o.Len() != 2 {
		t.Error("With changed its receiver")
	}
}

func TestValuesFromGo(t *testing.T) {
	v, err := From(map[string]any{"z": []any{1, "x", nil, true}, "a": map[string]string{"k": "v"}, "m": []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"a":{"k":"v"},"m":["s"],"z":[1,"x",null,true]}`, string(text)); diff != "" {
		t.Error(diff)
	}
	if _, err := From(struct{}{}); err == nil {
		t.Error("a struct became a value")
	}
	back, err := FromJSON(string(text))
	if err != nil || back.JSON() != v.JSON() {
		t.Errorf("round trip: %s, %v", back.JSON(), err)
	}
}

func TestScaledAndWhole(t *testing.T) {
	for _, test := range []struct {
		value Value
		want  int64
		ok    bool
	}{
		{Number(0.5), 30, true}, {Number(1), 60, true}, {String("1.5"), 90, true}, {Number(0.001), 1, true},
		{Number(math.NaN()), 0, false}, {Number(math.Inf(1)), 0, false}, {String("x"), 0, false}, {Number(1e300), 0, false},
	} {
		if got, ok := test.value.Scaled(60); got != test.want || ok != test.ok {
			t.Errorf("%s scaled is %d, %v", test.value.JSON(), got, ok)
		}
	}
	if _, ok := Number(1.5).Whole(); ok {
		t.Error("1.5 is whole")
	}
}
