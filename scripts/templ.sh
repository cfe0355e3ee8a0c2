#!/bin/sh
# templ.sh          regenerate the Go code of the page templates
# templ.sh --check  fail when a template and its Go code differ
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin=$("$root/scripts/tools.sh" github.com/a-h/templ/cmd/templ)
cd "$root"
if [ "${1:-}" != --check ]; then
	exec "$bin/templ" generate -path internal/web
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cp -R internal/web "$work/web"
# Generated names of files are relative to where templ runs, so it runs in the same place.
mkdir -p "$work/tree/internal"
mv "$work/web" "$work/tree/internal/web"
cp go.mod go.sum "$work/tree/"
(cd "$work/tree" && "$bin/templ" generate -path internal/web >"$work/log" 2>&1) || { cat "$work/log" >&2; exit 1; }
status=0
for made in internal/web/*_templ.go; do
	cmp -s "$made" "$work/tree/$made" || { echo "$made differs from its template; run make gen" >&2; status=1; }
done
exit $status
