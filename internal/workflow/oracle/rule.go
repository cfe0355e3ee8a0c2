package oracle

// Rule is one thing in which GitHub's published package differs from the language that we
// implement, with where our side comes from.
type Rule struct{ Name, Says string }

// Rules lists all of them. Each has a correction of the same name in test/oracle/answer.mjs.
func Rules() []Rule {
	return []Rule{
		{"number-text", "Numbers become text with 15 significant digits as .NET's `G15` writes them, also in `toJSON`, " +
			"where NaN and the infinities keep their names. That is what GitHub's runner does; the package writes " +
			"them as JavaScript does, and `null` in JSON."},
		{"number-forms", "Text is a number if it is decimal, `0x` or `0o` with up to 32 bits (two's " +
			"complement), or Infinity in " +
			"any case, as .NET reads it. The package takes whatever JavaScript's `Number` takes: `0b1`, `0X1F`, more bits."},
		{"folding", "Case is ignored letter by letter, as an ordinal comparison of .NET does. The package maps " +
			"whole texts, so " +
			"that `ß` becomes `SS`, and uses another mapping in `contains`."},
		{"quotes", "Every `''` in a text is a quote. The package replaces the first one only."},
		{"white-space", "Any white space of Unicode may stand between symbols and around numbers, as in .NET. The package " +
			"knows blank, tab and the ends of lines."},
		{"names", "Of two names of an object that differ in case only, the last value counts, as in GitHub's " +
			"runner, and any name is " +
			"possible. In the package the first one counts, and names like `constructor` are lost."},
		{"json-text", "`toJSON` writes U+0085, U+2028 and U+2029 as escapes, as the runner does."},
		{"json-depth", "`fromJSON` refuses more than 100 levels, as GitHub's server does. The package has no bound."},
		{"placeholders", "Between the braces of a template for `format` stands a number up to 255 and nothing " +
			"else, as in the " +
			"runner. The package ignores what follows the digits."},
		{"lazy", "`case` and `format` compute the arguments that they use, as the runner does, so an error in " +
			"another one does " +
			"not show. The package computes all of them first."},
		{"trailing-comma", "A comma after the last argument is an error, as in the runner. The package ignores it."},
		{"depth", "Fifty levels are counted in the tree, as in the runner: parentheses are no level, and a " +
			"chain of `&&` within a " +
			"chain of `&&` is one chain. The package counts parentheses."},
	}
}
