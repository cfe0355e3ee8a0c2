package blob

import "fmt"

// KeyBytesMax bounds a key, so that it fits every kind of storage (S3 stops at 1,024).
const KeyBytesMax = 1024

// keyPartBytesMax bounds one part between slashes: file systems stop at 255, and an
// adapter needs room for a suffix of its own.
const keyPartBytesMax = 200

// ValidKey tells whether a key is well formed: parts of letters, digits and ". _ - = @ : , ~"
// joined by single slashes, no part "." or "..", no slash at either end. The error wraps ErrKey.
// Every adapter calls it first, so that no adapter has to think about what a path could mean.
//
// Trust: keys are made by the server, but from parts that came from outside; a hostile key
// is refused here, whatever the storage behind would have made of it.
func ValidKey(key string) error {
	if key == "" || len(key) > KeyBytesMax {
		return fmt.Errorf("key of %d bytes: %w", len(key), ErrKey)
	}
	start := 0
	for i := 0; i <= len(key); i++ {
		if i < len(key) && key[i] != '/' {
			if !keyByte(key[i]) {
				return fmt.Errorf("key %.80q, byte %d: %w", key, i, ErrKey)
			}
			continue
		}
		part := key[start:i]
		if part == "" || part == "." || part == ".." || len(part) > keyPartBytesMax {
			return fmt.Errorf("key %.80q, part %.80q: %w", key, part, ErrKey)
		}
		start = i + 1
	}
	return nil
}

func keyByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	case c == '.', c == '_', c == '-', c == '=', c == '@', c == ':', c == ',', c == '~':
		return true
	}
	return false
}

// ValidPrefix is ValidKey for the prefix of a List: it may also be empty or end anywhere
// inside a key ("a/b", "a/"). The error wraps ErrKey.
func ValidPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if prefix[len(prefix)-1] == '/' {
		prefix = prefix[:len(prefix)-1]
	}
	return ValidKey(prefix)
}
