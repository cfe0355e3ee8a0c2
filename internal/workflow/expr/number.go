package expr

import (
	"math"
	"strconv"
	"strings"
)

// ParseNumber reads a number the way the language coerces text: surrounding space is
// ignored, empty is zero; decimal with optional sign, fraction and exponent, 0x and 0o
// with 32 bits, Infinity. What is none of these is NaN.
func ParseNumber(text string) float64 {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return 0
	case decimal(text):
		f, _ := strconv.ParseFloat(text, 64) // out of range is an infinity, as wanted
		return f
	case strings.HasPrefix(text, "0x"):
		if n, err := strconv.ParseUint(text[2:], 16, 32); err == nil && plainDigits(text[2:], "0123456789abcdefABCDEF") {
			return float64(int32(n)) // two's complement, as a 32-bit parse gives
		}
	case strings.HasPrefix(text, "0o"):
		if n, err := strconv.ParseUint(text[2:], 8, 32); err == nil && plainDigits(text[2:], "01234567") {
			return float64(int32(n))
		}
	case strings.EqualFold(text, "Infinity"), strings.EqualFold(text, "+Infinity"):
		return math.Inf(1)
	case strings.EqualFold(text, "-Infinity"):
		return math.Inf(-1)
	}
	return math.NaN()
}

// decimal checks the form [sign] digits [. digits] [e [sign] digits] itself, because
// strconv accepts more: underscores, hexadecimal fractions, "inf".
func decimal(text string) bool {
	rest := strings.TrimPrefix(text, "-")
	if rest == text {
		rest = strings.TrimPrefix(text, "+")
	}
	whole, rest := digits(rest)
	fraction := 0
	if strings.HasPrefix(rest, ".") {
		fraction, rest = digits(rest[1:])
	}
	if whole+fraction == 0 {
		return false
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		var exponent int
		if exponent, rest = digits(rest); exponent == 0 {
			return false
		}
	}
	return rest == ""
}

func digits(text string) (count int, rest string) {
	for count < len(text) && text[count] >= '0' && text[count] <= '9' {
		count++
	}
	return count, text[count:]
}

func plainDigits(text, allowed string) bool {
	return text != "" && strings.Trim(text, allowed) == ""
}

// formatNumber writes f with at most 15 significant digits, in scientific form where
// its exponent is below -4 or above 14: .NET's "G15", which GitHub's evaluator uses.
func formatNumber(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	const precision = 15
	text := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exponentText, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(exponentText)
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	significant := strings.TrimRight(strings.Replace(mantissa, ".", "", 1), "0")
	if significant == "" {
		return "0" // minus zero too
	}
	if exponent <= -5 || exponent >= precision {
		return sign + scientific(significant, exponent)
	}
	return sign + fixed(significant, exponent)
}

func scientific(significant string, exponent int) string {
	out := significant[:1]
	if len(significant) > 1 {
		out += "." + significant[1:]
	}
	mark := "E+"
	if exponent < 0 {
		mark, exponent = "E-", -exponent
	}
	if exponent < 10 {
		mark += "0"
	}
	return out + mark + strconv.Itoa(exponent)
}

func fixed(significant string, exponent int) string {
	if exponent < 0 {
		return "0." + strings.Repeat("0", -exponent-1) + significant
	}
	if len(significant) <= exponent+1 {
		return significant + strings.Repeat("0", exponent+1-len(significant))
	}
	return significant[:exponent+1] + "." + significant[exponent+1:]
}

// number is v coerced to a number: structures are NaN.
func (v Value) number() float64 {
	switch v.kind {
	case KindNull:
		return 0
	case KindBool:
		if v.truth {
			return 1
		}
		return 0
	case KindNumber:
		return v.num
	case KindString:
		return ParseNumber(v.text)
	}
	return math.NaN()
}

// Scaled is the number v times factor, rounded up to an integer: 0.5 minutes in seconds
// is Scaled(60) = 30. ok is false when v is not a finite number within ±2^53.
func (v Value) Scaled(factor int64) (scaled int64, ok bool) {
	f := v.number() * float64(factor)
	if math.IsNaN(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(math.Ceil(f)), true
}

// Whole is v as an integer. ok is false when v is not a whole number within ±2^53.
func (v Value) Whole() (n int64, ok bool) {
	f := v.number()
	if math.IsNaN(f) || math.Abs(f) > 1<<53 || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// IsNumber reports whether text is a number in the sense of ParseNumber, and not empty.
func IsNumber(text string) bool {
	return strings.TrimSpace(text) != "" && !math.IsNaN(ParseNumber(text))
}

// NumberText is the number that text stands for, written the way the language writes
// numbers: "3.10" is 3.1.
func NumberText(text string) string { return formatNumber(ParseNumber(text)) }
