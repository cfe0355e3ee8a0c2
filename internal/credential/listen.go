package credential

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"
)

// CheckListen refuses to serve plain HTTP where others than this machine could listen in:
// tokens and session cookies would cross the network readable.
func CheckListen(addr string, withTLS bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("check listen address %q: %w", addr, err)
	}
	if withTLS || loopback(host) {
		return nil
	}
	return fmt.Errorf("check listen address %q: it can be reached from outside this machine, and without TLS "+
		"every token would cross the network readable; listen on 127.0.0.1, or give --tls-cert and --tls-key", addr)
}

// loopback is strict: a name is believed only when it is localhost, since the answer of a
// resolver can change after it was checked. An empty host means every interface.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// certCheckEvery is how often a renewed certificate is looked for.
const certCheckEvery = time.Minute

// LoadTLS reads a certificate and its key, and reads them again when the file changed, so
// that a renewal needs no restart. A renewal that can't be read keeps the old one.
func LoadTLS(certFile, keyFile string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load certificate %s: %w", certFile, err)
	}
	held := &certificate{certFile: certFile, keyFile: keyFile, pair: &pair, modified: modified(certFile)}
	held.checked = time.Now()
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return held.current(time.Now()), nil
		},
	}, nil
}

type certificate struct {
	certFile, keyFile string

	mu       sync.Mutex
	pair     *tls.Certificate
	modified time.Time
	checked  time.Time
}

func (c *certificate) current(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.checked) < certCheckEvery {
		return c.pair
	}
	c.checked = now
	changed := modified(c.certFile)
	if changed.Equal(c.modified) {
		return c.pair
	}
	if pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile); err == nil {
		c.pair, c.modified = &pair, changed
	}
	return c.pair
}

func modified(path string) time.Time {
	stat, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return stat.ModTime()
}

// TrustPeers makes a client trust the servers of the fleet: what the system's authorities
// vouch for, and whoever shows the chain of certFile or one that it vouches for.
func TrustPeers(certFile string) (func(*http.Transport), error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	text, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("load certificate %s: %w", certFile, err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("load certificate %s: it holds none", certFile)
	}
	return func(t *http.Transport) {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}, nil
}
