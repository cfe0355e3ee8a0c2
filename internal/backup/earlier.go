package backup

import (
	"path/filepath"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// earlier is a backup that a new one takes unchanged files from.
type earlier struct {
	manifest *Manifest
	objects  map[string]entry
	mirrors  map[string]entry
}

func openEarlier(folder string) (*earlier, error) {
	m, err := ReadManifest(folder)
	if err != nil {
		return nil, err
	}
	if err := matches(filepath.Join(folder, listFile), m.List); err != nil {
		return nil, err
	}
	e := &earlier{manifest: m, objects: map[string]entry{}, mirrors: map[string]entry{}}
	return e, eachEntry(folder, func(one *entry) error {
		switch {
		case one.Digest == "":
		case one.Kind == kindObject:
			e.objects[one.Name] = *one
		case one.Kind == kindMirror:
			e.mirrors[one.Name] = *one
		}
		return nil
	})
}

func (e *earlier) mirror(name string) (entry, bool) {
	if e == nil {
		return entry{}, false
	}
	one, ok := e.mirrors[name]
	return one, ok
}

// object gives what the earlier backup has under a key, if its bytes can be no others
// without reading them: the key is made of the digest, or history says it. A key alone is
// not enough: after a restore the same names may have been used for something else.
func (e *earlier) object(key string, sealed map[string]domain.Digest) (entry, bool) {
	if e == nil {
		return entry{}, false
	}
	one, ok := e.objects[key]
	if !ok {
		return entry{}, false
	}
	named := strings.Contains(key, "/objects/") && strings.HasSuffix(key, "/"+one.Digest.Hex())
	return one, named || logs.BundleDigest(key) == one.Digest || sealed[key] == one.Digest
}
