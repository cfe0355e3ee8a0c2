#!/bin/sh
# tools.sh PACKAGE...: build the pinned tools of tools/go.mod into a cache outside of the
# repository, once per version, and print the folder they are in.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${FAIRLEAD_TOOLS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead-tools}
bin=$cache/bin-$(cat "$root/tools/go.mod" "$root/tools/go.sum" | sha256sum | cut -c1-16)
for package; do
	[ -x "$bin/${package##*/}" ] || (cd "$root/tools" && go build -o "$bin/" "$package")
done
echo "$bin"
