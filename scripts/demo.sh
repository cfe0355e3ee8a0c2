#!/bin/sh
# demo.sh: a real project's tests through Fairlead, started by a git push, on this machine.
#
# Everything is made in one folder under ${TMPDIR:-/tmp} and nothing outside of it is
# touched: a server with a runner, a bare repository made from examples/linkcheck, its
# post-receive hook, a clone, and a commit that is pushed. At a terminal the server stays
# until Ctrl-C, so that the pages can be looked at; otherwise the script ends when the run
# did, with the run's result as its own.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
fairlead=${FAIRLEAD:-$root/bin/fairlead}
work=$(mktemp -d "${TMPDIR:-/tmp}/fairlead-demo.XXXXXX")
server=
stopped=

# finish stops the server first, so that it can end its jobs, and then removes the folder.
finish() {
	status=$?
	trap - EXIT INT TERM
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	fi
	if [ $status -ne 0 ] && [ -z "$stopped" ]; then
		echo "The demonstration failed; the end of the server's log:" >&2
		tail -n 20 "$work/server.log" >&2 2>/dev/null || true
	fi
	chmod -R u+w "$work" 2>/dev/null || true
	rm -rf "$work"
	exit $status
}
trap finish EXIT
trap 'stopped=yes; exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }
[ -t 1 ] || { say() { printf '\n== %s\n' "$*"; }; show() { printf '$ %s\n' "$*"; "$@"; }; }

# Nothing of the caller's own configuration may change what is shown.
unset FAIRLEAD_SERVER FAIRLEAD_TOKEN GIT_DIR GIT_WORK_TREE || true
export FAIRLEAD_DATA="$work/data"
export GIT_CONFIG_GLOBAL="$work/gitconfig" GIT_CONFIG_NOSYSTEM=1
git config --file "$GIT_CONFIG_GLOBAL" user.name 'Demo'
git config --file "$GIT_CONFIG_GLOBAL" user.email 'demo@localhost'
git config --file "$GIT_CONFIG_GLOBAL" init.defaultBranch main
git config --file "$GIT_CONFIG_GLOBAL" safe.directory '*'
mkdir "$work/bin"
ln -s "$(cd "$(dirname "$fairlead")" && pwd)/$(basename "$fairlead")" "$work/bin/fairlead"
PATH=$work/bin:$PATH

say 'A server with a runner'
printf '$ fairlead up\n'
mkfifo "$work/ready"
"$fairlead" up --listen 127.0.0.1:0 >"$work/ready" 2>"$work/server.log" &
server=$!
# One read, no polling: the line comes when runs can be taken, or the pipe ends.
read -r word url <"$work/ready" || { echo 'The server ended before it was ready.' >&2; exit 1; }
[ "$word" = ready ] || { echo "The server said: $word $url" >&2; exit 1; }
echo "ready $url"
grep -i 'isolation' "$work/server.log" || true

say 'A project on this machine, and the hook that tells of pushes'
git init --quiet "$work/seed"
cp -R "$root/examples/linkcheck/." "$work/seed/"
git -C "$work/seed" add -A
git -C "$work/seed" commit --quiet --message 'Check links of Markdown files'
git clone --quiet --bare "$work/seed" "$work/linkcheck.git"
show fairlead repo add "$work/linkcheck.git" --name linkcheck --poll=false
show fairlead repo hook linkcheck --install "$work/linkcheck.git"

say 'A change, and a git push'
git clone --quiet "$work/linkcheck.git" "$work/clone"
cd "$work/clone"
printf '\nExit codes: 0 without findings, 1 with findings, 2 when a file can not be read.\n' >>README.md
git commit --quiet --all --message 'Document the exit codes'
printf '$ git push origin main\n'
git push --quiet origin main 2>"$work/push.log" || { cat "$work/push.log" >&2; exit 1; }
cat "$work/push.log"
run=$(grep -o 'run_[0-9A-Za-z]*' "$work/push.log" | head -n 1)
[ -n "$run" ] || { echo 'The push started no run.' >&2; exit 1; }

say 'The run, as it goes'
show fairlead logs -f "$run"

say 'What was asked for, what was seen, what was committed'
show fairlead show "$run"

say 'Why its last job ran when it did'
show fairlead why "$run" package

# The list is asked for by outcome, so no JSON has to be taken apart here.
result=1
if fairlead runs --json --outcome success --limit 1 | grep -q "$run"; then
	result=0
fi

# Whoever opens the link first is signed in by it; it leads on to the run.
say 'The page that explains it'
echo "  $(fairlead sign-in)&next=/runs/$run"

if [ $result -eq 0 ] && [ -t 0 ] && [ -t 1 ] && [ -z "${CI:-}" ]; then
	printf '\nThe server stays until Ctrl-C; then everything of this demonstration is removed.\n'
	wait "$server" || true
fi
exit $result
