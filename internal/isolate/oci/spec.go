package oci

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
)

// Folders as a job sees them. They are the same for every attempt, so tools that cache
// by path find their own caches valid.
const (
	boxRoot  = "/fairlead"
	initPath = "/.fairlead-init"
)

const (
	// uidBase and uidSpan: where attempts get their user ids, far above those of people
	// and packages, and of the usual ranges for user namespaces of people.
	uidBase = 1_879_048_192
	uidSpan = 1 << 20
	// pidsMaxDefault stops a fork bomb; the largest builds use a few hundred.
	pidsMaxDefault = 8192
	// tmpfsRun bounds /run, which lives in memory.
	tmpfsRun = "size=64m"
)

// hidden lists top-level folders that never become a lower layer: those that the
// container gets anew, those with people's files, and those of the kernel.
var hidden = []string{
	"/proc", "/sys", "/dev", "/run", "/tmp", "/root", "/home", "/boot", "/lost+found", boxRoot,
}

// secrets lists what is masked in the lower layers beyond what file permissions
// already keep from the attempt's user.
var secrets = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private",
	"/etc/sudoers", "/etc/sudoers.d", "/etc/security/opasswd", "/etc/fairlead", "/var/lib/fairlead",
	"/var/run/secrets", "/etc/kubernetes", "/var/lib/kubelet",
}

// kernelMasks and kernelReadonly are the usual restrictions of /proc and /sys.
var kernelMasks = []string{
	"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/interrupts",
	"/sys/firmware", "/sys/devices/virtual/powercap", "/sys/kernel/debug", "/sys/fs/cgroup",
}

var kernelReadonly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// user is the id that an attempt runs under. Two attempts on one machine share an id
// only by chance, and then still not a pid namespace or a folder.
func user(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return uidBase + h.Sum32()%uidSpan
}

// layout is what of the sandbox's folder is mounted where.
type layout struct {
	dir string
}

func (l layout) at(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

func (l layout) outside() isolate.Paths {
	return isolate.Paths{
		Workspace: l.at("workspace"), Temp: l.at("temp"), Home: l.at("home"),
		Files: l.at("files"), Source: l.at("source"), Tools: l.at("tools"),
	}
}

func insidePaths() isolate.Paths {
	return isolate.Paths{
		Workspace: boxRoot + "/workspace", Temp: boxRoot + "/temp", Home: boxRoot + "/home",
		Files: boxRoot + "/files", Source: boxRoot + "/source", Tools: boxRoot + "/tools",
	}
}

// makeFolders creates the folders of the sandbox, owned by the attempt's user where the
// job writes, and gives it a name there.
func (l layout) makeFolders(uid uint32) error {
	out := l.outside()
	if err := os.MkdirAll(l.dir, 0o711); err != nil { //nolint:gosec // mounts inside need no rights on it
		return err
	}
	own := []string{out.Workspace, out.Temp, out.Home, out.Files, out.Tools, l.at("tmp"), l.at("vartmp")}
	for _, dir := range own {
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // its mount is private
			return err
		}
		if err := os.Lchown(dir, int(uid), int(uid)); err != nil {
			return err
		}
	}
	for _, dir := range []string{out.Source, l.at("rootfs"), l.at("bundle"), l.at("upper"), l.at("work"),
		l.at("state")} {
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // its mount is private
			return err
		}
	}
	return nil
}

// top makes the skeleton of the root: links as they are, folders as mount points. It
// returns the folders that become overlays.
func (l layout) top() ([]string, error) {
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil, err
	}
	var layers []string
	for _, e := range entries {
		path := "/" + e.Name()
		into := l.at("rootfs", e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return nil, err
			}
			if err := os.Symlink(target, into); err != nil {
				return nil, err
			}
		case e.IsDir():
			if err := os.Mkdir(into, 0o755); err != nil { //nolint:gosec // a mount point
				return nil, err
			}
			if !slices.Contains(hidden, path) {
				layers = append(layers, path)
			}
		}
	}
	return layers, nil
}

// overlay makes the mount of one top-level folder.
func (l layout) overlay(path string) (specs.Mount, error) {
	name := strings.Trim(path, "/")
	for _, kind := range []string{"upper", "work"} {
		if err := os.MkdirAll(l.at(kind, name), 0o755); err != nil { //nolint:gosec // becomes the folder's own mode
			return specs.Mount{}, err
		}
	}
	if strings.ContainsAny(l.dir+path, `,:\`) {
		return specs.Mount{}, fmt.Errorf("the path %s has a character that overlay options can't hold", l.dir)
	}
	return specs.Mount{
		Destination: path, Type: "overlay", Source: "overlay",
		Options: []string{
			"nosuid", "nodev", "lowerdir=" + path, "upperdir=" + l.at("upper", name), "workdir=" + l.at("work", name),
		},
	}, nil
}

// nameUser puts the attempt's user into the passwd and group files of the upper layer,
// so that programs which look themselves up find a name and a home.
func (l layout) nameUser(uid uint32) error {
	dir := l.at("upper", "etc")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // becomes /etc
		return err
	}
	lines := map[string]string{
		"passwd": fmt.Sprintf("fairlead:x:%d:%d:Fairlead job:%s:/bin/sh\n", uid, uid, insidePaths().Home),
		"group":  fmt.Sprintf("fairlead:x:%d:\n", uid),
	}
	for _, name := range []string{"passwd", "group"} {
		text, err := os.ReadFile("/etc/" + name)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		text = append(text, lines[name]...)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // world-readable by nature
			return err
		}
	}
	return nil
}

// config writes the container down.
func (l layout) config(spec isolate.Spec, self string) (*specs.Spec, error) {
	uid := user(spec.ID)
	mounts := []specs.Mount{{Destination: "/proc", Type: "proc", Source: "proc", Options: quiet()}}
	layers, err := l.top()
	if err != nil {
		return nil, err
	}
	for _, path := range layers {
		m, err := l.overlay(path)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, m)
	}
	if err := l.nameUser(uid); err != nil {
		return nil, err
	}
	mounts = append(mounts, l.special()...)
	mounts = append(mounts, specs.Mount{
		Destination: initPath, Type: "bind", Source: self, Options: []string{"bind", "ro", "nosuid", "nodev"},
	})
	namespaces := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
	}
	switch spec.Network {
	case "", "pool":
	case "none":
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	default:
		return nil, fmt.Errorf("%w: network %q", isolate.ErrUnsupported, spec.Network)
	}
	score := 500
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: "fairlead",
		Root:     &specs.Root{Path: l.at("rootfs")},
		Mounts:   mounts,
		Process: &specs.Process{
			Args: []string{initPath, inside.Arg, inside.Apart}, Cwd: "/",
			Env:             []string{isolate.Marker + "=" + spec.ID, "GOMAXPROCS=2"},
			User:            specs.User{UID: uid, GID: uid},
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			OOMScoreAdj:     &score,
			Rlimits:         rlimits(),
		},
		Linux: &specs.Linux{
			Namespaces:    namespaces,
			Resources:     resources(spec.Limits),
			CgroupsPath:   "fairlead-" + spec.ID,
			Seccomp:       seccomp(),
			MaskedPaths:   slices.Concat(kernelMasks, secrets, spec.Mask),
			ReadonlyPaths: kernelReadonly,
		},
	}, nil
}

func quiet(more ...string) []string { return append([]string{"nosuid", "noexec", "nodev"}, more...) }

// special lists the mounts over the layers: devices, scratch folders and the sandbox's
// own folders.
func (l layout) special() []specs.Mount {
	in, out := insidePaths(), l.outside()
	bind := func(from, to string, mode string) specs.Mount {
		return specs.Mount{
			Destination: to, Type: "bind", Source: from, Options: []string{"bind", mode, "nosuid", "nodev"},
		}
	}
	mounts := []specs.Mount{
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755",
			"size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec",
			"newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: quiet("mode=1777", "size=512m")},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: quiet()},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: quiet("ro")},
		{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=755", tmpfsRun}},
		bind(l.at("tmp"), "/tmp", "rw"),
		bind(l.at("vartmp"), "/var/tmp", "rw"),
		bind(out.Workspace, in.Workspace, "rw"), bind(out.Temp, in.Temp, "rw"), bind(out.Home, in.Home, "rw"),
		bind(out.Files, in.Files, "rw"), bind(out.Tools, in.Tools, "rw"), bind(out.Source, in.Source, "ro"),
	}
	// A resolver's file usually is a link into /run, which the container has its own of.
	if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && strings.HasPrefix(real, "/run/") {
		mounts = append(mounts, bind(real, real, "ro"))
	}
	return mounts
}

// rlimits never asks for more than this process may give.
func rlimits() []specs.POSIXRlimit {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil
	}
	return []specs.POSIXRlimit{
		{Type: "RLIMIT_NOFILE", Hard: files.Max, Soft: min(files.Max, 65536)},
		{Type: "RLIMIT_CORE", Hard: 0, Soft: 0},
	}
}

// resources sets limits where the kernel has the controller for them; a runtime refuses
// to start over a limit that it can't set.
func resources(limits isolate.Limits) *specs.LinuxResources {
	r := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
	if hasController("pids") {
		most := limits.PidsMax
		if most <= 0 {
			most = pidsMaxDefault
		}
		r.Pids = &specs.LinuxPids{Limit: &most}
	}
	if limits.MemoryBytes > 0 && hasController("memory") {
		r.Memory = &specs.LinuxMemory{Limit: &limits.MemoryBytes}
	}
	return r
}

func hasController(name string) bool {
	if text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return slices.Contains(strings.Fields(string(text)), name)
	}
	st, err := os.Stat("/sys/fs/cgroup/" + name)
	return err == nil && st.IsDir()
}
