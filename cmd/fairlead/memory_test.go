package main

import "testing"

func TestHowMuchGarbageMayCollect(t *testing.T) {
	const mebi = 1 << 20
	for name, c := range map[string]struct {
		live, rate float64
		want       int
	}{
		"an idle server":                       {10 * mebi, mebi / 10, 200},
		"a busy one":                           {100 * mebi, 400 * mebi, 200},
		"many runners that wait":               {1600 * mebi, 24 * mebi, 20},
		"a crowd that wait, seldom heard":      {1600 * mebi, mebi, 4},
		"connections of twenty thousand":       {550 * mebi, 5 * mebi, 11},
		"a busy server of many runners":        {1600 * mebi, 400 * mebi, 200},
		"a million jobs that wait, busy":       {1100 * mebi, 100 * mebi, 156},
		"little, busy":                         {32 * mebi, 100 * mebi, 400},
		"little that is left in calm":          {32 * mebi, 1 * mebi, 200},
		"a hundred mebibytes, busy":            {128 * mebi, 100 * mebi, 156},
		"nothing":                              {0, 0, 200},
		"half a gigabyte, busy":                {512 * mebi, 300 * mebi, 200},
		"half a gigabyte that is left in calm": {512 * mebi, 0, 12},
	} {
		if got := percentFor(c.live, c.rate); got != c.want {
			t.Errorf("%s: %d %%, want %d", name, got, c.want)
		}
	}
}
