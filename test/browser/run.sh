#!/bin/sh
# Walks the pages with a real browser: main paths with and without scripts, by keyboard,
# in light, dark and narrow, with the accessibility rules of axe on every page.
#
#   test/browser/run.sh [URL]
#
# Without a URL it starts the gallery itself. With the URL of a running server (its
# sign-in link) it walks what that server has. Screenshots go to $FAIRLEAD_SHOTS.
# Needs Node and Chromium; two npm packages are kept in a cache outside of the repository.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${FAIRLEAD_BROWSER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/browser}
export FAIRLEAD_SHOTS="${FAIRLEAD_SHOTS:-$cache/shots}"
export FAIRLEAD_CHROMIUM="${FAIRLEAD_CHROMIUM:-/usr/bin/chromium}"
export FAIRLEAD_MODULES="$cache/node_modules"

command -v node >/dev/null || { echo "browser test: node is not installed" >&2; exit 1; }
[ -x "$FAIRLEAD_CHROMIUM" ] || { echo "browser test: no Chromium at $FAIRLEAD_CHROMIUM" >&2; exit 1; }
if [ ! -d "$FAIRLEAD_MODULES/playwright-core" ] || [ ! -d "$FAIRLEAD_MODULES/axe-core" ]; then
	mkdir -p "$cache"
	(cd "$cache" && npm install --no-save --no-audit --no-fund --ignore-scripts \
		playwright-core@1.65.1 axe-core@4.14.1)
fi
mkdir -p "$FAIRLEAD_SHOTS"

if [ $# -ge 1 ]; then
	exec node "$root/test/browser/walk.mjs" "$1"
fi

work=$(mktemp -d)
gallery=
trap 'test -z "$gallery" || kill "$gallery" 2>/dev/null || true; rm -rf "$work"' EXIT INT TERM
(cd "$root" && go build -o "$work/gallery" ./internal/web/gallery)
mkfifo "$work/ready"
"$work/gallery" -listen 127.0.0.1:0 >"$work/ready" &
gallery=$!
read -r word url <"$work/ready"
[ "$word" = ready ] || { echo "browser test: the gallery did not start" >&2; exit 1; }
node "$root/test/browser/walk.mjs" "$url"
