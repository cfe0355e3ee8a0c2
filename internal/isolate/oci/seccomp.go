package oci

import (
	"runtime"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// forbidden lists system calls that a build has no business with: they reach for the
// kernel's own objects, for other namespaces, or have been the way out of containers.
// Capabilities already stop most of them; the filter also stops the kernel code that
// runs before a capability is checked. It names what is denied, not what is allowed:
// jobs run any program there is, and an allow-list breaks those that are newer than it.
var forbidden = []string{
	"acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "create_module", "delete_module",
	"fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms",
	"init_module", "io_uring_enter", "io_uring_register", "io_uring_setup", "ioperm", "iopl",
	"kcmp", "kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie", "mount", "mount_setattr",
	"move_mount", "move_pages", "name_to_handle_at", "nfsservctl", "open_by_handle_at", "open_tree",
	"perf_event_open", "pidfd_getfd", "pivot_root", "process_madvise", "process_vm_readv",
	"process_vm_writev", "query_module", "quotactl", "quotactl_fd", "reboot", "request_key",
	"setns", "settimeofday", "stime", "swapoff", "swapon", "sysfs", "_sysctl", "syslog", "umount",
	"umount2", "unshare", "uselib", "userfaultfd", "ustat", "vhangup", "vm86", "vm86old",
}

// namespaceFlags are those of clone that make a namespace. Each is a rule of its own,
// because a filter can only compare under one mask at a time.
var namespaceFlags = []uint64{
	unix.CLONE_NEWNS, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER,
	unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWCGROUP,
}

// seccomp is the filter of every container; nil on machines whose calls we don't know.
func seccomp() *specs.LinuxSeccomp {
	var arch []specs.Arch
	switch runtime.GOARCH {
	case "amd64":
		arch = []specs.Arch{specs.ArchX86_64, specs.ArchX86}
	case "arm64":
		arch = []specs.Arch{specs.ArchAARCH64, specs.ArchARM}
	default:
		return nil
	}
	denied, absent := uint(unix.EPERM), uint(unix.ENOSYS)
	calls := []specs.LinuxSyscall{
		{Names: forbidden, Action: specs.ActErrno, ErrnoRet: &denied},
		// Its flags are behind a pointer, where no filter can look; told that the kernel
		// is too old for it, every C library falls back to clone.
		{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &absent},
		// Kernel crypto and host-to-guest sockets: nothing a build needs.
		deny(&denied, "socket", specs.LinuxSeccompArg{Index: 0, Value: unix.AF_ALG, Op: specs.OpEqualTo}),
		deny(&denied, "socket", specs.LinuxSeccompArg{Index: 0, Value: unix.AF_VSOCK, Op: specs.OpEqualTo}),
		// Typing into a terminal that somebody else reads.
		deny(&denied, "ioctl", specs.LinuxSeccompArg{Index: 1, Value: unix.TIOCSTI, Op: specs.OpEqualTo}),
		deny(&denied, "ioctl", specs.LinuxSeccompArg{Index: 1, Value: unix.TIOCLINUX, Op: specs.OpEqualTo}),
	}
	for _, flag := range namespaceFlags {
		calls = append(calls, deny(&denied, "clone",
			specs.LinuxSeccompArg{Index: 0, Value: flag, ValueTwo: flag, Op: specs.OpMaskedEqual}))
	}
	return &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Architectures: arch, Syscalls: calls}
}

func deny(errno *uint, name string, arg specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{
		Names: []string{name}, Action: specs.ActErrno, ErrnoRet: errno, Args: []specs.LinuxSeccompArg{arg},
	}
}
