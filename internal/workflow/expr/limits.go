package expr

// Bounds of one expression. They are GitHub's own, so nothing that runs there is cut
// off here; what exceeds them is refused with the bound and the count reached.
const (
	// LengthMax is the longest expression in characters, without its ${{ and }}.
	LengthMax = 21_000
	// DepthMax is how deep operators, calls and indexes may nest. A chain of && or of
	// || is one level, however long.
	DepthMax = 50
	// argsMax is how many arguments hashFiles takes.
	argsMax = 255
	// JSONDepthMax is how deep the text given to fromJSON may nest.
	JSONDepthMax = 100
)

// Budget bounds one evaluation. A zero field means its default.
type Budget struct {
	// Steps is the number of elementary operations: a node evaluated, an element of an
	// array visited, a kilobyte of text compared.
	Steps int
	// Bytes is how much text and structure the evaluation may build in all.
	Bytes int
}

// Defaults of Budget.
const (
	StepsDefault = 1_000_000
	BytesDefault = 10 << 20
)

func (b Budget) orDefault() Budget {
	if b.Steps <= 0 {
		b.Steps = StepsDefault
	}
	if b.Bytes <= 0 {
		b.Bytes = BytesDefault
	}
	return b
}
