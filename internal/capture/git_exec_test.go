package capture

import (
	"slices"
	"testing"
)

// TestGitBelievesTheCertificatesOfTheProgram: a server that the
// client believes must be one that its git can push to.
func TestGitBelievesTheCertificatesOfTheProgram(t *testing.T) {
	t.Setenv("GIT_SSL_CAINFO", "")
	t.Setenv("SSL_CERT_FILE", "/etc/own.pem")
	if env := environment(nil); !slices.Contains(env, "GIT_SSL_CAINFO=/etc/own.pem") {
		t.Errorf("git is told %q", env)
	}
	t.Setenv("SSL_CERT_FILE", "")
	if env := environment(nil); slices.Contains(env, "GIT_SSL_CAINFO=/etc/own.pem") {
		t.Errorf("git is told %q", env)
	}
}
