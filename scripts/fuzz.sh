#!/bin/sh
# fuzz.sh DURATION: run every fuzz target of the module for that long, one after another.
# A finding is written to the package's testdata/fuzz, where every later test run tries it.
set -eu
duration=${1:-10s}
cd "$(dirname "$0")/.."
grep -rlE '^func Fuzz' --include='*_test.go' api cmd internal | sort | while read -r file; do
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "fuzz: ./$(dirname "$file") $target"
		go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$duration" </dev/null
	done
done
