#!/bin/sh
# gen.sh          regenerate everything that is made from api/**/*.proto
# gen.sh --check  the same into a scratch folder, and fail when the result differs
# gen.sh --lint   lint the contract, and compare it with every frozen one in api/frozen
# gen.sh --freeze the same, and freeze what the contract is now as the next one: for a
#                 release, and by nobody in passing. Nothing in api/frozen is ever changed.
#
# What is made: Go types and Connect bindings beside the .proto files, and the frozen
# OpenAPI document api/openapi.json. Generators are pinned: Go plugins in tools/go.mod,
# buf and the google/api contracts in package-lock.json. They are installed into a cache
# outside the repository, so a clean clone builds without any of this.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tools/gen
mode=${1:-write}
cache=${FAIRLEAD_TOOLS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlead-tools}

lock=$(cat "$here/package.json" "$here/package-lock.json" | sha256sum | cut -c1-16)
npm=$cache/npm-$lock
if [ ! -e "$npm/complete" ]; then
	mkdir -p "$npm"
	cp "$here/package.json" "$here/package-lock.json" "$npm/"
	(cd "$npm" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	touch "$npm/complete"
fi
buf=$npm/node_modules/.bin/buf

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# The plugins, built once per version of tools/go.mod.
bin=$cache/bin-$(cat "$root/tools/go.mod" "$root/tools/go.sum" | sha256sum | cut -c1-16)
for plugin in google.golang.org/protobuf/cmd/protoc-gen-go \
	connectrpc.com/connect/v2/cmd/protoc-gen-connect-go \
	github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv3; do
	[ -x "$bin/$(basename "$plugin")" ] || (cd "$root/tools" && go build -o "$bin/" "$plugin")
done
PATH=$bin:$PATH

# workspace DIR SOURCE: lay out the contract in SOURCE/fairlead and its imports for buf.
workspace() {
	mkdir -p "$1/src" "$1/deps/google/api"
	(cd "$2" && find fairlead -name '*.proto' | while read -r file; do
		mkdir -p "$1/src/$(dirname "$file")"
		cp "$file" "$1/src/$file"
	done)
	for file in annotations http; do
		cp "$npm/node_modules/google-proto-files/google/api/$file.proto" "$1/deps/google/api/"
	done
	sed 's|  - path: \.|  - path: src\n  - path: deps|' "$root/api/buf.yaml" >"$1/buf.yaml"
}

workspace "$work/now" "$root/api"

# image SIDE: build the workspace of that name into an image that buf compares.
image() { (cd "$work/$1" && "$buf" build --path src/fairlead -o "$work/$1.binpb"); }

# compare BASE SIDE: compare the image of SIDE with that of BASE, by the rules of api/buf.yaml.
compare() { (cd "$work/now" && "$buf" breaking "$work/$2.binpb" --exclude-imports --against "$work/$1.binpb"); }

# bites: a contract that lacks a field must not get through, or the comparison shows nothing.
bites() {
	mkdir -p "$work/cut-api"
	cp -R "$root/api/fairlead" "$work/cut-api/"
	file=fairlead/runner/v1/runner.proto
	awk '!cut && /^  [a-z][A-Za-z0-9_]* [a-z_]+ = [0-9]+;/ { cut = 1; next } { print }' \
		"$root/api/$file" >"$work/cut-api/$file"
	workspace "$work/cut" "$work/cut-api"
	image cut
	compare now cut >"$work/said" || true
	grep -q 'Previously present field "1"' "$work/said" && return
	echo 'the comparison of contracts lets a removed field through' >&2
	exit 1
}

if [ "$mode" = --lint ] || [ "$mode" = --freeze ]; then
	(cd "$work/now" && "$buf" lint --path src/fairlead)
	image now
	last=0
	while [ -d "$root/api/frozen/$((last + 1))" ]; do
		last=$((last + 1))
		workspace "$work/frozen-$last" "$root/api/frozen/$last"
		image "frozen-$last"
		compare "frozen-$last" now
	done
	[ $last -gt 0 ] || { echo 'api/frozen has no contract to compare with' >&2; exit 1; }
	bites
	[ "$mode" = --freeze ] || exit 0
	if cmp -s "$work/now.binpb" "$work/frozen-$last.binpb"; then
		echo "the contract is that of api/frozen/$last" >&2
		exit 1
	fi
	next=$root/api/frozen/$((last + 1))
	(cd "$root/api" && find fairlead -name '*.proto') | while read -r file; do
		mkdir -p "$next/$(dirname "$file")"
		cp "$root/api/$file" "$next/$file"
	done
	(cd "$root" && go test ./api -rewrite && go test ./internal/testkit/frozen -rewrite)
	exit 0
fi

(cd "$work/now" &&
	"$buf" generate --template "$root/api/buf.gen.yaml" --path src/fairlead &&
	"$buf" generate --template "$root/api/buf.openapi.yaml" --path src/fairlead/v1)
(cd "$root/tools" && go run ./gen/openapi "$work/now/openapi") >"$work/now/openapi.json"

if [ "$mode" = --check ]; then
	status=0
	for file in $(cd "$work/now/out" && find . -type f); do
		diff -u "$root/api/$file" "$work/now/out/$file" || status=1
	done
	diff -u "$root/api/openapi.json" "$work/now/openapi.json" || status=1
	[ $status = 0 ] || echo 'generated files differ from the contract: run tools/gen/gen.sh' >&2
	exit $status
fi
cp -R "$work/now/out/." "$root/api/"
cp "$work/now/openapi.json" "$root/api/openapi.json"
