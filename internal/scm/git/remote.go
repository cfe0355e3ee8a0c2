package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
)

// way is how to reach a remote: what git is told and what it is allowed.
type way struct {
	url      string
	protocol string
	config   []string
	env      []string
	close    func()
}

var (
	scpForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:([A-Za-z0-9][A-Za-z0-9._-]*)@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^-/:][^:]*|/.*)$`)
	})
	hostForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	})
)

// CheckURL says whether the text may name a remote at all, without asking the network.
//
// Trust: text may come from anybody.
func CheckURL(text string) error {
	_, err := parseRemote(text)
	return err
}

// address is a remote's URL taken apart.
type address struct {
	scheme string // "https", "http", "ssh" or "file"
	host   string
	port   string
	url    string // what git gets
}

func parseRemote(text string) (address, error) {
	refuse := func(why string) (address, error) {
		return address{}, fmt.Errorf("%w: %s", scm.ErrRefused, why)
	}
	if text == "" || len(text) > 2048 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return refuse("the address is empty, too long or has blanks or control characters in it")
	}
	if strings.HasPrefix(text, "/") {
		if filepath.Clean(text) != strings.TrimRight(text, "/") || strings.Contains(text, ":") {
			return refuse("a path must be absolute, clean and without a colon")
		}
		return address{scheme: "file", url: text}, nil
	}
	if !strings.Contains(text, "://") {
		part := scpForm().FindStringSubmatch(text)
		if part == nil {
			return refuse("use https://host/path, ssh://user@host/path or user@host:path")
		}
		return address{scheme: "ssh", host: part[2], port: "22", url: text}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return refuse("the address is malformed")
	}
	port := u.Port()
	switch u.Scheme {
	case "https":
		port = orElse(port, "443")
	case "http":
		port = orElse(port, "80")
	case "ssh":
		port = orElse(port, "22")
	default:
		return refuse("only https and ssh addresses are fetched from")
	}
	if _, secret := u.User.Password(); secret || u.User != nil && u.Scheme != "ssh" {
		return refuse("an address must not carry credentials")
	}
	if u.User != nil && strings.HasPrefix(u.User.Username(), "-") {
		return refuse("the address is malformed")
	}
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err != nil && !hostForm().MatchString(host) {
		return refuse("the host name is malformed")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.Path == "" || u.Path == "/" || strings.HasPrefix(u.Path, "/-") {
		return refuse("the path is missing or malformed")
	}
	return address{scheme: u.Scheme, host: host, port: port, url: text}, nil
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// route checks a remote against policy and pins the network address that was checked:
// git connects to that one, so a name that changes its mind between the check and the
// connection gains nothing.
func (m *Mirrors) route(ctx context.Context, from scm.Remote) (way, error) {
	to, err := parseRemote(from.URL)
	if err != nil {
		return way{}, err
	}
	if to.scheme == "file" {
		return m.localRoute(to)
	}
	ip, err := m.allowed(ctx, to)
	if err != nil {
		return way{}, err
	}
	w := way{url: to.url, protocol: to.scheme, close: func() {}}
	if to.scheme == "ssh" {
		// The host key is still looked up under the name.
		w.env = []string{"GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ConnectTimeout=20 -o HostKeyAlias=" +
			to.host + " -o HostName=" + ip.String()}
		return w, nil
	}
	pinned := ip.String()
	if ip.Is6() {
		pinned = "[" + pinned + "]"
	}
	if _, err := netip.ParseAddr(to.host); err != nil {
		w.config = []string{"http.curloptResolve=" + to.host + ":" + to.port + ":" + pinned}
	}
	return w, nil
}

// allowed gives the address to connect to. Every address of the name must be allowed.
func (m *Mirrors) allowed(ctx context.Context, to address) (netip.Addr, error) {
	var addrs []netip.Addr
	if ip, err := netip.ParseAddr(to.host); err == nil {
		addrs = []netip.Addr{ip}
	} else {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		addrs, err = m.config.Lookup(ctx, to.host)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("look up %s: %w: %w", to.host, scm.ErrUnreachable, err)
		}
	}
	if len(addrs) == 0 {
		return netip.Addr{}, fmt.Errorf("look up %s: no address: %w", to.host, scm.ErrUnreachable)
	}
	for _, ip := range addrs {
		ip = ip.Unmap()
		switch {
		case ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
			return netip.Addr{}, fmt.Errorf("%w: %s leads to %s", scm.ErrRefused, to.host, ip)
		case ip.IsLoopback():
			if !m.config.AllowLoopback {
				return netip.Addr{}, fmt.Errorf("%w: %s is this machine", scm.ErrRefused, to.host)
			}
		case to.scheme == "http":
			return netip.Addr{}, fmt.Errorf("%w: plain http is for this machine only, use https", scm.ErrRefused)
		case ip.IsPrivate() || sharedSpace.Contains(ip):
			if !m.config.AllowPrivate {
				return netip.Addr{}, fmt.Errorf("%w: %s is in a private network", scm.ErrRefused, to.host)
			}
		}
	}
	return addrs[0].Unmap(), nil
}

// sharedSpace is the address space of carriers (RFC 6598): as private as the others.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// localRoute lets git read a path that an administrator registered, whoever owns it:
// registering it was the statement of trust that git's ownership check asks for.
func (m *Mirrors) localRoute(to address) (way, error) {
	real, err := filepath.EvalSymlinks(to.url)
	if err != nil {
		return way{}, fmt.Errorf("open %s: %w", to.url, scm.ErrNotFound)
	}
	if real == m.root || strings.HasPrefix(real, m.root+string(filepath.Separator)) {
		return way{}, fmt.Errorf("%w: the path is one of the server's own mirrors", scm.ErrRefused)
	}
	file, err := os.CreateTemp("", "fairlead-git-*.config")
	if err != nil {
		return way{}, fmt.Errorf("allow %s: %w", to.url, err)
	}
	remove := func() { _ = os.Remove(file.Name()) }
	var text bytes.Buffer
	text.WriteString("[safe]\n")
	for _, dir := range []string{to.url, to.url + "/.git", real, real + "/.git"} {
		fmt.Fprintf(&text, "\tdirectory = \"%s\"\n", strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(dir))
	}
	_, err = file.Write(text.Bytes())
	if err := errors.Join(err, file.Close()); err != nil {
		remove()
		return way{}, fmt.Errorf("allow %s: %w", to.url, err)
	}
	return way{url: to.url, protocol: "file", env: []string{"GIT_CONFIG_GLOBAL=" + file.Name()}, close: remove}, nil
}

// remoteFault sorts a failed conversation with a remote.
func remoteFault(ctx context.Context, err error) error {
	var exit *exitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return fmt.Errorf("%w: %w: no answer in time", scm.ErrUnreachable, domain.ErrRetry)
	case errors.As(err, &exit):
		return fmt.Errorf("%w: %w: %w", scm.ErrUnreachable, domain.ErrRetry, exit)
	}
	return err
}

// Advertised implements scm.Mirrors.
func (m *Mirrors) Advertised(ctx context.Context, from scm.Remote) (scm.Advertisement, error) {
	w, err := m.route(ctx, from)
	if err != nil {
		return scm.Advertisement{}, fmt.Errorf("ask %s: %w", scrub(from.URL), err)
	}
	defer w.close()
	out, err := m.run(ctx, call{config: w.config, env: w.env, protocol: w.protocol, timeout: askTimeout,
		args: []string{"ls-remote", "--quiet", "--symref", "--", w.url, "HEAD", "refs/heads/*", "refs/tags/*"}})
	if err := remoteFault(ctx, err); err != nil {
		return scm.Advertisement{}, fmt.Errorf("ask %s: %w", scrub(from.URL), err)
	}
	return parseAdvertisement(string(out))
}

// parseAdvertisement reads what ls-remote --symref prints. A tag is listed as an object
// and once more with "^{}" as what it leads to; the second line wins.
//
// Trust: text comes from the remote.
func parseAdvertisement(text string) (scm.Advertisement, error) {
	var ad scm.Advertisement
	for line := range strings.Lines(text) {
		object, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue
		}
		if target, ok := strings.CutPrefix(object, "ref: refs/heads/"); ok {
			if name == "HEAD" && scm.ValidRefName(target) {
				ad.DefaultBranch = target
			}
			continue
		}
		if !scm.ValidCommit(object) || name == "HEAD" {
			continue
		}
		if peeled, ok := strings.CutSuffix(name, "^{}"); ok {
			if last := len(ad.Refs) - 1; last >= 0 && ad.Refs[last].Name == peeled {
				ad.Refs[last].Commit = object
			}
			continue
		}
		if !scm.ValidRefName(name) {
			continue
		}
		if len(ad.Refs) == refsMax {
			return scm.Advertisement{}, fmt.Errorf("read refs: over %d: %w", refsMax, scm.ErrTooLarge)
		}
		ad.Refs = append(ad.Refs, scm.Ref{Name: name, Commit: object})
	}
	return ad, nil
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
