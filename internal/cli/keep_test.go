package cli

import (
	"maps"
	"testing"
)

func TestDaysThatLogsAreKept(t *testing.T) {
	for text, want := range map[string]int{"1d": 1, "90d": 90, "36500d": 36_500, "forever": 0} {
		var days int
		if err := (&keepValue{&days}).Set(text); err != nil || days != want {
			t.Errorf("%s is %d, %v", text, days, err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "90", "12h", "1.5d", "36501d", "99999999999999999999d", "never"} {
		days := 7
		if err := (&keepValue{&days}).Set(text); err == nil || days != 7 {
			t.Errorf("%q is taken as %d", text, days)
		}
	}
}

func TestDaysThatLogsOfAClassAreKept(t *testing.T) {
	var of map[string]int
	v := &keepOfValue{&of}
	for _, text := range []string{"batch=14d", "interactive=30d,protected=forever"} {
		if err := v.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{"batch": 14, "interactive": 30, "protected": 0}
	if !maps.Equal(of, want) || v.String() != "batch=14d,interactive=30d,protected=forever" {
		t.Errorf("%v, %s", of, v)
	}
	for _, text := range []string{"", "batch", "=14d", "batch=", "night=14d", "batch=1d", "rollback=0d",
		"rollback=1d,batch=2d"} {
		if err := v.Set(text); err == nil || !maps.Equal(of, want) {
			t.Errorf("%q gives %v, %v", text, of, err)
		}
	}
}
