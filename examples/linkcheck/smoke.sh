#!/bin/sh
# Runs the built program the way people do: a good tree, a bad tree, its own manual.
set -eu
program=$1
"$program" testdata/good
if "$program" testdata/bad; then
	echo 'smoke: a dead link went unnoticed' >&2
	exit 1
fi
"$program" -quiet .  >/dev/null 2>&1 && { echo 'smoke: the bad tree below . went unnoticed' >&2; exit 1; }
echo 'smoke: ok'
