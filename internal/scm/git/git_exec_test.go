package git

import (
	"slices"
	"testing"
)

// TestGitBelievesTheCertificatesOfTheProgram: a mirror behind a
// certificate of one's own is fetched like any other.
func TestGitBelievesTheCertificatesOfTheProgram(t *testing.T) {
	t.Setenv("GIT_SSL_CAINFO", "")
	t.Setenv("SSL_CERT_FILE", "/etc/own.pem")
	if env := environment(call{}); !slices.Contains(env, "GIT_SSL_CAINFO=/etc/own.pem") {
		t.Errorf("git is told %q", env)
	}
	t.Setenv("SSL_CERT_FILE", "")
	if env := environment(call{}); slices.Contains(env, "GIT_SSL_CAINFO=/etc/own.pem") {
		t.Errorf("git is told %q", env)
	}
}
