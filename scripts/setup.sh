#!/bin/sh
# setup.sh: install what the tests need and say why, or say what is missing.
#
#   setup.sh            what every test needs
#   setup.sh --browser  also what the browser test needs
#   setup.sh --race     also what the race detector needs
#   setup.sh --crash    also what the crash tests need
#
# On a Debian-like machine, as root or with sudo that asks nothing, missing programs are
# installed by apt-get. Elsewhere the script names what is missing and fails if a test
# could not run without it. It starts no daemon and changes nothing that is there.
set -eu

more=${1:-}

as_root=
if [ "$(id -u)" -ne 0 ]; then
	if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
		as_root='sudo -n'
	else
		as_root=none
	fi
fi
can_install=
if command -v apt-get >/dev/null 2>&1 && [ "$as_root" != none ]; then
	can_install=yes
fi

# PostgreSQL keeps its server programs out of PATH.
have_postgres() {
	command -v initdb >/dev/null 2>&1 && return
	for program in /usr/lib/postgresql/*/bin/initdb; do
		[ -x "$program" ] && return
	done
	return 1
}
have_oci() { command -v crun >/dev/null 2>&1 || command -v runc >/dev/null 2>&1; }
have_chromium() { [ -x "${FAIRLEAD_CHROMIUM:-/usr/bin/chromium}" ]; }
have_npm() { command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1; }
have_cc() { command -v "${CC:-gcc}" >/dev/null 2>&1; }
have_strace() { command -v strace >/dev/null 2>&1; }
have_ip() { command -v ip >/dev/null 2>&1; }
have_uml() { command -v linux.uml >/dev/null 2>&1; }
have_git() { command -v git >/dev/null 2>&1; }

packages=
missing=
# need TEST PACKAGES WHY: what is not there goes on the list with its reason.
need() {
	if "$1"; then
		return
	fi
	packages="$packages $2"
	missing="$missing $1"
	printf 'setup: %s: %s\n' "$2" "$3"
}

command -v go >/dev/null 2>&1 || {
	wanted=$(sed -n 's/^go //p' "$(dirname "$0")/../go.mod")
	echo "setup: Go is not in PATH; install Go $wanted or newer: https://go.dev/dl" >&2
	exit 1
}
need have_git 'git' 'mirrors, checkouts and pushes are made by git itself'
need have_postgres 'postgresql' 'the conformance suite of the store runs on a private PostgreSQL cluster'
need have_oci 'runc' 'the isolation driver "oci" is tested with real containers'
need have_npm 'nodejs npm' "the workflow language is compared with GitHub's published packages"
if [ "$more" = --race ]; then
	need have_cc 'gcc libc6-dev' 'the race detector links C code'
fi
if [ "$more" = --crash ]; then
	need have_strace 'strace' 'syncs of running processes are made to fail and to hang'
	need have_ip 'iproute2' 'a server is cut off from its database by a network namespace'
	# Debian has it for some processors only; where it lacks the test says so by itself.
	case $(uname -m) in
	x86_64 | i?86) need have_uml 'user-mode-linux' 'the clock is set in a guest machine, and nowhere else' ;;
	esac
fi
if [ "$more" = --browser ]; then
	need have_chromium 'chromium fonts-dejavu-core' 'the pages are walked with a real browser'
fi
# The packages that tests compare with; no more than a look when they are there.
oracle() { "$(dirname "$0")/oracle.sh" >/dev/null; }
if [ -z "$packages" ]; then
	oracle
	exit 0
fi

if [ -z "$can_install" ]; then
	echo "setup: can't install (no apt-get, or neither root nor sudo); install these and try again:$packages" >&2
	exit 1
fi
if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
	echo 'setup: apt-get update, because the lists of packages are empty'
	${as_root:+$as_root} apt-get update -qq
fi
echo "setup: apt-get install$packages"
# Debian starts and creates a cluster when PostgreSQL is installed; the tests make their own.
if [ ! -e /etc/postgresql-common/createcluster.conf ] && ! have_postgres; then
	${as_root:+$as_root} mkdir -p /etc/postgresql-common
	echo 'create_main_cluster = false' |
		${as_root:+$as_root} tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
# The words of $packages are names without spaces.
# shellcheck disable=SC2086
${as_root:+$as_root} env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages \
	>/dev/null </dev/null

for test in $missing; do
	"$test" || { echo "setup: still missing after the installation: ${test#have_}" >&2; exit 1; }
done
oracle
