package credential

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// PeerSecret is what the servers of one fleet know each other by. It is kept in the folder
// that they share; whoever can read that folder is one of them.
type PeerSecret struct {
	text    domain.Secret
	current fingerprint
}

// OpenPeerSecret reads SHARED/credentials/peer-secret, and makes it when there is none.
// Preconditions: the caller holds the lock of Lock, so that no two servers make it.
func OpenPeerSecret(sharedFolder string) (*PeerSecret, error) {
	path := filepath.Join(sharedFolder, folderCredentials, "peer-secret")
	content, err := readSecret(path)
	if absent(err) {
		text := newText(prefixPeer)
		if err := writeSecret(path, []byte(text+"\n")); err != nil {
			return nil, err
		}
		content = []byte(text)
	} else if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(content))
	if !strings.HasPrefix(text, prefixPeer) || len(text) < len(prefixPeer)+32 {
		return nil, fmt.Errorf("read peer secret %s: it holds no secret; stop all servers and remove the file", path)
	}
	return &PeerSecret{text: domain.NewSecret(text), current: fingerprintOf(text)}, nil
}

// Text is what a server shows to another one.
func (p *PeerSecret) Text() domain.Secret { return p.text }

// Verify reports whether text is the secret.
//
// Trust: text comes from anybody.
func (p *PeerSecret) Verify(text string) bool {
	return len(text) <= textBytesMax && p.current.equal(fingerprintOf(text))
}
