package credential

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// AdminToken is the administrator's credential on the embedded default: made at the first
// start, kept in a file that only the owner of the server can read.
type AdminToken struct {
	path string

	mu      sync.RWMutex
	current fingerprint
}

// OpenAdminToken reads DATA/credentials/admin-token, and makes it when there is none.
func OpenAdminToken(dataFolder string) (*AdminToken, error) {
	a := &AdminToken{path: filepath.Join(dataFolder, folderCredentials, "admin-token")}
	content, err := readSecret(a.path)
	if absent(err) {
		return a, a.Rotate()
	}
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(content))
	if !strings.HasPrefix(text, prefixAdmin) || len(text) < len(prefixAdmin)+32 {
		return nil, fmt.Errorf("read admin token %s: it holds no token; remove the file to get a new one", a.path)
	}
	a.current = fingerprintOf(text)
	return a, nil
}

// Path is the file that holds the token, for the client's discovery file.
func (a *AdminToken) Path() string { return a.path }

// Rotate replaces the token; the old one is refused from then on.
func (a *AdminToken) Rotate() error {
	text := newText(prefixAdmin)
	if err := writeSecret(a.path, []byte(text+"\n")); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = fingerprintOf(text)
	return nil
}

// Verify reports whether text is the token.
//
// Trust: text comes from anybody.
func (a *AdminToken) Verify(text string) bool {
	if len(text) > textBytesMax {
		return false
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.current.equal(fingerprintOf(text))
}

func admin(via string) Principal {
	return Principal{Kind: KindAdmin, ID: "admin", Via: via, Tenant: domain.DefaultTenant}
}
