#!/bin/sh
# oracle.sh: install GitHub's published packages of the workflow language, which tests
# compare ours with, into a cache outside of the repository, and print the folder. They
# are no part of the product. The versions are those of test/oracle/package-lock.json,
# with the digests of their archives; another lock file is another folder.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)/test/oracle
cache=${FAIRLEAD_ORACLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/oracle}
folder=$cache/$(sha256sum "$here/package-lock.json" | cut -c1-16)
if [ ! -f "$folder/node_modules/@actions/expressions/dist/index.js" ]; then
	command -v npm >/dev/null 2>&1 || { echo 'oracle: npm is not installed; scripts/setup.sh installs it' >&2; exit 1; }
	echo 'oracle: npm ci: expressions are compared with what GitHub publishes' >&2
	mkdir -p "$folder"
	cp "$here/package.json" "$here/package-lock.json" "$folder/"
	(cd "$folder" && npm ci --no-audit --no-fund --ignore-scripts >&2)
fi
echo "$folder"
