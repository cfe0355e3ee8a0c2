package job

import (
	"slices"
	"testing"
)

// TestGitBelievesTheCertificatesOfTheProgram: a runner that
// believes a server with a certificate of one's own must be able to fetch from it.
func TestGitBelievesTheCertificatesOfTheProgram(t *testing.T) {
	t.Setenv("GIT_SSL_CAINFO", "")
	t.Setenv("SSL_CERT_FILE", "/etc/own.pem")
	if env := network(); !slices.Contains(env, "GIT_SSL_CAINFO=/etc/own.pem") {
		t.Errorf("git is told %q", env)
	}
	t.Setenv("SSL_CERT_FILE", "")
	if env := network(); slices.Contains(env, "GIT_SSL_CAINFO=/etc/own.pem") {
		t.Errorf("git is told %q", env)
	}
}
