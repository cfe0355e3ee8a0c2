# Everything is behind one of these words; `make` alone prints them.
# All laws are tests, so `go test ./...` alone is an honest check too.

GO       ?= go
FUZZTIME ?= 10s
RELEASE  := -trimpath -buildvcs=auto -ldflags '-s -w'

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# The version in a binary is the commit that go build records.

# What a change breaks most often, and all that is quick. `make test` runs everything.
FAST := ./internal/tidy ./internal/domain ./internal/core/... ./internal/workflow/... ./internal/manifest \
	./internal/redact ./internal/credential ./internal/engine ./internal/projection/... ./internal/dispatch \
	./internal/store/memory ./internal/store/sqlite ./internal/blob/... ./internal/logs/ansi ./internal/web/...

# Where goroutines meet. The pure ring has none.
RACE := ./internal/engine ./internal/dispatch ./internal/logs/... ./internal/runner/... ./internal/httpapi \
	./internal/trigger/... ./internal/control ./internal/reactor ./internal/order ./internal/credential \
	./internal/store/memory ./internal/store/sqlite ./internal/blob/... ./internal/scm/... \
	./internal/telemetry ./internal/web ./api/client

.DEFAULT_GOAL := help
.PHONY: help demo up build setup test check race fault crash crash-long upgrade sim sim-seed sim-mutations fuzz lint gen gallery bench bench-compare e2e browser clean

help: ## print this
	@printf 'Fairlead %s\n\n' '$(VERSION)'
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

demo: build ## run a real project's tests through Fairlead, started by a git push
	@scripts/demo.sh

up: build ## start a server with a runner, for your own repositories
	@bin/fairlead up

# The command line starts in half the time without a server in it, and hands over to the
# whole program where it needs one. The whole program alone is ./cmd/fairlead.
build: ## build bin/fairlead, bin/fairlead-server and bin/fairlead-runner
	@mkdir -p bin
	@CGO_ENABLED=0 $(GO) build $(RELEASE) -o bin/fairlead ./cmd/fairlead-client
	@CGO_ENABLED=0 $(GO) build $(RELEASE) -o bin/fairlead-server ./cmd/fairlead
	@CGO_ENABLED=0 $(GO) build $(RELEASE) -o bin/fairlead-runner ./cmd/fairlead-runner

setup: ## install what the tests need, and say why
	@scripts/setup.sh

test: setup ## install what the tests need and run all of them
	@$(GO) test -timeout 40m ./...
	@cd examples/linkcheck && $(GO) test ./...
	@cd bench/compare && $(GO) test ./...
	@scripts/setup.sh --browser
	@test/browser/run.sh

check: ## the fast gate before a commit, under two minutes
	@scripts/oracle.sh >/dev/null
	@$(GO) vet ./...
	@$(GO) test $(FAST)

race: ## the packages with goroutines under the race detector
	@scripts/setup.sh --race
	@CGO_ENABLED=1 $(GO) test -race -short $(RACE)
	@# The scripts of the command line start this test binary hundreds of times; with the
	@# detector in it they would test patience. They run without it in make test.
	@CGO_ENABLED=1 $(GO) test -race -short -skip '^TestScript$$' ./internal/cli/...

fault: ## every call of every port made to fail, one at a time (STEP=N: every N-th)
	@out=$$(mktemp); status=0; \
		$(GO) test -count 1 -v -timeout 2h ./internal/fault -args -step $(or $(STEP),1) >$$out || status=$$?; \
		grep -v -e '^=== ' $$out; rm -f $$out; exit $$status

crash: ## kill, stop and part the real programs under load; a short siege on each store
	@scripts/setup.sh --crash
	@$(GO) test -count 1 -v -timeout 30m ./test/crash -kills 8

crash-long: ## sieges of 100 kills on each store, until the journal has 500 of each
	@scripts/setup.sh --crash
	@nice -n 10 $(GO) test -count 1 -v -timeout 24h -parallel 1 ./test/crash -planted -kills 100 -total 500 -journal journal.jsonl

# FIRST= is where to begin; without it, worlds go on where the journal ends. JOURNAL= is another journal.
SIM      ?= 60s
JOURNAL  ?= .sim-journal

sim: ## simulated worlds for SIM (60s), each with everything failing that can (FIRST=, JOURNAL=)
	@$(GO) run ./internal/sim/cmd -for $(SIM) -first $(or $(FIRST),0) -journal $(JOURNAL)

sim-seed: ## the trace of one world: SEED=
	@$(GO) run ./internal/sim/cmd -trace $(SEED)

sim-mutations: ## break the product line by line; the simulation must find each (ONLY=, RECORD=1)
	@$(GO) run ./internal/sim/mutation/cmd -only '$(ONLY)' $(if $(RECORD),-record docs/ops/simulation.md)

upgrade: ## replace versions and databases under load, in both directions (some minutes)
	@scripts/setup.sh --crash
	@$(GO) test -count 1 -v -timeout 60m ./test/upgrade -long

fuzz: ## every fuzz target for FUZZTIME (10s) each
	@scripts/fuzz.sh $(FUZZTIME)

lint: ## vet, staticcheck, module checksums, generated code up to date
	@scripts/lint.sh

gen: ## regenerate from the contract, the page templates and the package list
	@tools/gen/gen.sh
	@scripts/templ.sh
	@$(GO) test ./internal/tidy -rewrite

gallery: ## serve every page in every state
	@$(GO) run ./internal/web/gallery

bench: build ## the benchmarks of the rooms, then of whole processes
	@$(GO) test -run '^$$' -bench . -benchtime 2s ./internal/engine ./internal/store/... ./internal/logs \
		./internal/trigger ./internal/core/run ./internal/core/placement
	@$(GO) test -run '^$$' -bench ReadyToManifest -benchtime 500x ./internal/dispatch
	@bin/fairlead bench run
	@bin/fairlead bench dispatch
	@bin/fairlead bench logs
	@bin/fairlead bench idle

bench-compare: ## River and Fairlead with the same work on the same PostgreSQL (five minutes; ARGS=-help)
	@scripts/setup.sh
	@cd bench/compare && $(GO) run . $(ARGS)

e2e: setup ## the real binaries, driven by scripts, on SQLite and PostgreSQL
	@$(GO) test -count 1 ./test/e2e

browser: ## walk the pages with a real browser
	@scripts/setup.sh --browser
	@test/browser/run.sh

clean: ## remove what was built
	@rm -rf bin
