#!/bin/sh
# lint.sh: what is checked without running the code. The laws of the codebase, gofmt's
# form among them, are tests in internal/tidy and not repeated here.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

step() { printf 'lint: %s\n' "$*"; }

step 'module checksums'
go mod verify
(cd tools && go mod verify)
(cd bench/compare && go mod verify)

step 'go vet'
go vet ./...
(cd examples/linkcheck && go vet ./...)
(cd bench/compare && go vet ./...)

step 'staticcheck'
staticcheck=$(scripts/tools.sh honnef.co/go/tools/cmd/staticcheck)/staticcheck
"$staticcheck" ./...
(cd bench/compare && "$staticcheck" ./...)

step 'shell scripts parse'
for script in .ci/run scripts/*.sh tools/gen/*.sh test/browser/*.sh examples/*/*.sh; do
	sh -n "$script"
done

step 'page templates and their Go code'
scripts/templ.sh --check

if command -v npm >/dev/null 2>&1; then
	step 'the contract and its Go code'
	tools/gen/gen.sh --check
	step 'the contract keeps what was promised'
	tools/gen/gen.sh --lint
else
	step 'the contract: only go test ./api looks at it, because npm is not installed'
fi
