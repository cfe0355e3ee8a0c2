package cli

import (
	"context"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// checkKernel looks at what isolation builds on. Each is a warning only: what matters is
// whether a driver works, and the drivers were asked themselves.
func checkKernel(context.Context) []Finding {
	return []Finding{cgroups(), overlay(), userNamespaces(), seccomp()}
}

func cgroups() Finding {
	const name, root = "cgroups", "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		return Finding{name, findWarn, "none are mounted at " + root,
			"mount cgroup2 there, so that jobs can be bounded and ended as a whole"}
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		if _, err := os.Stat(root + "/unified/cgroup.controllers"); err == nil {
			return ok(name, "version 1, with version 2 beside it")
		}
		return ok(name, "version 1")
	}
	controllers, err := os.ReadFile(root + "/cgroup.controllers")
	if err != nil {
		return Finding{name, findWarn, "version 2, but its controllers can't be read: " + err.Error(),
			"run as a user with a delegated cgroup"}
	}
	have := strings.Fields(string(controllers))
	if len(have) == 0 {
		return Finding{name, findWarn, "version 2 without any controller here",
			"delegate memory and pids, so that limits of jobs hold"}
	}
	return ok(name, "version 2 with %s", strings.Join(have, ", "))
}

func overlay() Finding {
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err == nil && strings.Contains(string(filesystems), "\toverlay\n") {
		return ok("overlay", "the kernel has overlay file systems")
	}
	return Finding{"overlay", findWarn, "the kernel does not list overlay file systems",
		"modprobe overlay: without it jobs have no throw-away copy of the machine's files"}
}

func userNamespaces() Finding {
	const name = "user namespaces"
	if os.Geteuid() == 0 {
		return ok(name, "not needed: this is root")
	}
	for _, limit := range []struct{ path, bad, fix string }{
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"allow this program in an AppArmor profile, or sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		if value, err := os.ReadFile(limit.path); err == nil && strings.TrimSpace(string(value)) == limit.bad {
			return Finding{name, findWarn, "not for ordinary users: " + limit.path + " is " + limit.bad, limit.fix}
		}
	}
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return Finding{name, findWarn, "the kernel has none", "use a kernel with CONFIG_USER_NS"}
	}
	return ok(name, "ordinary users may make them")
}

func seccomp() Finding {
	if actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail"); err == nil {
		return ok("seccomp", "filters with %s", strings.TrimSpace(string(actions)))
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil && strings.Contains(string(status), "\nSeccomp:") {
		return ok("seccomp", "available")
	}
	return Finding{"seccomp", findWarn, "the kernel has none", "use a kernel with CONFIG_SECCOMP_FILTER"}
}
