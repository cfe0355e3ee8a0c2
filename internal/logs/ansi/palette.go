package ansi

import (
	"fmt"
	"strings"
)

const (
	paletteSize = 256
	cubeStart   = 16
	grayStart   = 232
)

// cubeLevels are the six levels of each colour in the palette's 6×6×6 cube (xterm).
var cubeLevels = [6]int{0, 95, 135, 175, 215, 255}

// nearest is the colour of the cube or the grey ramp that is closest to a true colour.
func nearest(r, g, b int) Color {
	ri, gi, bi := level(r), level(g), level(b)
	cube := distance(r, g, b, cubeLevels[ri], cubeLevels[gi], cubeLevels[bi])
	step := min(max((r+g+b)/3-8+5, 0)/10, 23)
	gray := 8 + 10*step
	if distance(r, g, b, gray, gray, gray) < cube {
		return Color(grayStart + step + 1)
	}
	return Color(cubeStart + 36*ri + 6*gi + bi + 1)
}

func level(v int) int {
	best := 0
	for i, l := range cubeLevels {
		if (v-l)*(v-l) < (v-cubeLevels[best])*(v-cubeLevels[best]) {
			best = i
		}
	}
	return best
}

// distance is the square of how far apart two colours are.
//
// tidy:long six numbers are two colours; a struct for each would hide the arithmetic
func distance(r, g, b, r2, g2, b2 int) int {
	return (r-r2)*(r-r2) + (g-g2)*(g-g2) + (b-b2)*(b-b2)
}

// Stylesheet is the CSS for the classes that Render writes. The sixteen named colours are
// left to the page as custom properties (--t-0 … --t-15), so that light and dark themes keep
// their contrast; the rest are the fixed colours of the palette.
func Stylesheet() string {
	var b strings.Builder
	b.WriteString(".t-b{font-weight:bold}.t-f{opacity:.7}.t-i{font-style:italic}.t-u{text-decoration:underline}\n")
	b.WriteString(".t-s{text-decoration:line-through}.t-u.t-s{text-decoration:underline line-through}\n")
	b.WriteString(".t-c{visibility:hidden}\n")
	b.WriteString(".t-fgd{color:var(--t-ground,Canvas)}.t-bgd{background:var(--t-text,CanvasText)}\n")
	for i := range cubeStart {
		fmt.Fprintf(&b, ".t-fg%d{color:var(--t-%d)}.t-bg%d{background:var(--t-%d)}\n", i, i, i, i)
	}
	for i := cubeStart; i < paletteSize; i++ {
		red, green, blue := paletteColor(i)
		hex := fmt.Sprintf("#%02x%02x%02x", red, green, blue)
		fmt.Fprintf(&b, ".t-fg%d{color:%s}.t-bg%d{background:%s}\n", i, hex, i, hex)
	}
	return b.String()
}

func paletteColor(i int) (red, green, blue int) {
	if i >= grayStart {
		v := 8 + 10*(i-grayStart)
		return v, v, v
	}
	i -= cubeStart
	return cubeLevels[i/36], cubeLevels[i/6%6], cubeLevels[i%6]
}
