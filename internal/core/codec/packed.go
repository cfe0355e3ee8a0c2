package codec

// The packed form is what events and checkpoints are stored in since format 3: the same tree
// of names and values as the JSON form, a third of its size and of its cost. It knows no
// types: names stand for themselves, by their place in words.go, so a reader tells what it
// does not know as it does with JSON.
//
// A value begins with one byte:
//
//	00     the end of an object
//	01 02  true, false
//	03     an object: name and value in turns, to the end
//	04     a list: the number of values, and the values
//	05     a time: microseconds since the first time of the text, zigzag
//	06     the same with nanoseconds: microseconds, zigzag, and 0 to 999
//	07 08  a number: n, or -1-n
//	09     a string: its length and bytes
//	0a     a word: its place, less 128
//	0b     a string that stands before: its place among those
//	0c     an id's 26 characters, as 16 bytes
//	0d     lower-case hexadecimal digits: half their number, and the bytes
//	0e     a SHA-256 digest with its name, as 32 bytes
//	0f 10  two or three strings that are one
//	11     nothing: a null, or the zero time
//	20–3f  a string of 0 to 31 bytes
//	40–7f  a number, 0 to 63
//	80–ff  a word, 0 to 127
//
// Numbers are unsigned varints. Every string of three bytes or more that is not a word is
// counted from 0 when it ends; further on its place stands for it. The first time of a text
// counts from epoch. A field whose value is zero is left out.
//
// Events are the byte 01, then the name of each and its object. A checkpoint is the byte 01
// and an object.
const (
	tagEnd     = 0x00
	tagTrue    = 0x01
	tagFalse   = 0x02
	tagObject  = 0x03
	tagList    = 0x04
	tagTime    = 0x05
	tagNano    = 0x06
	tagNumber  = 0x07
	tagMinus   = 0x08
	tagText    = 0x09
	tagWord    = 0x0a
	tagBefore  = 0x0b
	tagID      = 0x0c
	tagHex     = 0x0d
	tagDigest  = 0x0e
	tagTwo     = 0x0f
	tagThree   = 0x10
	tagNothing = 0x11
	textBase   = 0x20
	numberBase = 0x40
	wordBase   = 0x80

	packed = 0x01 // the first byte; no JSON begins with it

	shortText   = numberBase - textBase
	shortNumber = wordBase - numberBase
	shortWords  = 0x100 - wordBase

	keptText  = 3                     // bytes of the shortest text that is counted
	joinedMax = 256                   // bytes of a text that is written in parts
	epoch     = 1_577_836_800_000_000 // microseconds: 2020-01-01
)

// FormatPacked is the format from which on events are packed.
const FormatPacked uint32 = 3
