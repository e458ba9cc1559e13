# lockstep: `make help` lists what can be made.

GO      ?= go
BIN     := bin
VAR     := var
SEEDS   ?= 1..2000
BENCH   ?= # more flags for lockstep-bench: BENCH='--only Jobs --out new.txt'
GANETI  ?= $(BIN)/ganeti
CLUSTER ?= TestSwap|TestRefusal|TestLive|TestQA # TestReference: the operator's day on Ganeti's own daemons
REVISION := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
DATE    := $(shell TZ=UTC git show -s --date=iso-strict-local --format=%cd HEAD 2>/dev/null)
VERSION := $(patsubst v%,%,$(shell git describe --tags --exact-match 2>/dev/null))
BUILDINFO := lockstep/cmd/internal/buildinfo
TOOLS   := $(GO) tool -modfile=.ci/tools/go.mod
PREFIX  ?= /usr/local
DESTDIR ?=
EPOCH   := $(shell git show -s --format=%ct HEAD 2>/dev/null || echo 0)
# Without a release: a version before 0 that grows with the time of the commit.
PACKAGE_VERSION := $(or $(VERSION),0~git$(shell date -u -d @$(EPOCH) +%Y%m%d%H%M%S).$(REVISION))
SOURCE  := GO="$(GO)" REVISION="$(REVISION)" SOURCE_DATE_EPOCH=$(EPOCH)
PACKAGES := $(BIN)/packages
PROTOS  := $(wildcard messages/*.proto)
PROTOC_GEN := $(abspath $(BIN))/protoc-gen-go
STRIPPED := -ldflags='-s -w' # test binaries without debug information: a third less work for the linker
DAEMONS := ./cmd/lockstepd # its tests start real daemons and mostly wait
VET     :=
# make check has the defaults: ten doors at once and ten calls, five kills, and whole sweeps but for LONGTEST_SEEDS_PART.
DAEMON_FLAGS ?= -walk.doors=24 -walk.calls=5
CLUSTER_FLAGS ?= -cluster.kills=3

# The tests draw the same in each run; make sweep draws something new. 0 lets each test choose.
export RAPID_SEED ?= 1
# Draws for each property in make sweep; rapid's default is 100
SWEEP_CHECKS ?= 300

.DEFAULT_GOAL := help
.PHONY: help build quick test test-daemons test-others sweep race lint proto verify sim rooms scenario conformance conformance-cluster browser browser-load manual recording install packages packages-quick limits-check packages-check packages-repeat packages-ganeti container container-check bench bench-guard microbench demo demo-cluster run check check-others clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the programs into bin/
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags "-X $(BUILDINFO).version=$(VERSION) -X $(BUILDINFO).revision=$(REVISION) -X $(BUILDINFO).date=$(DATE)" -o $(BIN)/ ./cmd/...

quick: ## the tests to run while editing: all but the long sweeps and real daemons, in less than a minute
	$(GO) test -short -vet=off $(STRIPPED) ./...

test: export LONGTEST_PART ?= 4
test: export LONGTEST_SEEDS_PART ?= 4
test: ## run all tests, a quarter of each sweep; those of packages in RACE under the race detector, when the others have ended
	@$(MAKE) --no-print-directory -j2 test-daemons test-others
	$(if $(RACE),$(GO) test -race -timeout 30m $(STRIPPED) $(VET) $(RACE))

# The clusters of real daemons have leases, which lapse beside heavy work. So they come after the other tests of their package, and all
# other packages, which run meanwhile, have a lower priority. -skip and -run with one pattern leave out no test.
test-daemons:
	$(GO) test -timeout 30m $(STRIPPED) $(VET) -parallel 4 -skip '^TestCluster' $(DAEMONS) $(DAEMON_FLAGS)
	$(GO) test -timeout 30m $(STRIPPED) $(VET) -parallel 4 -run '^TestCluster' $(DAEMONS) $(CLUSTER_FLAGS)

test-others:
	nice -n 5 $(GO) test -timeout 30m $(STRIPPED) $(VET) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(DAEMONS) $(RACE))")

sweep: SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
sweep: ## the randomized tests with a new SEED, which it prints
	@seed=$(SEED); echo "make sweep SEED=$$seed"; files=$$(grep -rl --include='*_test.go' '"pgregory.net/rapid"' actors cmd core edge sim); \
	tests=$$(sed -n 's/^func \(Test[A-Za-z0-9_]*\).*/\1/p' $$files | paste -sd'|' -); \
	RAPID_SEED=$$seed RAPID_CHECKS=$(SWEEP_CHECKS) $(GO) test -short -vet=off $(STRIPPED) -run "^($$tests)$$" $$(dirname $$files | sort -u | sed 's,^,./,') && \
	$(GO) test -timeout 10m -vet=off $(STRIPPED) -run 'TestChaos|TestClusterSurvivesKillsOfTheMaster|TestClusterHandsOver' ./cmd/lockstepd -chaos.seed=$$seed -cluster.seed=$$seed || \
	{ echo "repeat it: make sweep SEED=$$seed" >&2; exit 1; }

race: ## run all tests under the race detector
	$(GO) test -race -timeout 60m ./...

lint: ## go vet, golangci-lint with the rules of .golangci.yml, and no function that nothing calls
	$(GO) vet ./...
	$(TOOLS) golangci-lint run --timeout 30m ./...
	@dead=$$($(TOOLS) deadcode -test ./...) || exit 1; test -z "$$dead" || { echo "nothing calls:"; echo "$$dead"; exit 1; } >&2

proto: $(PROTOC_GEN) ## generate messages/*.pb.go from messages/*.proto
	@command -v protoc >/dev/null || { echo "protoc is missing: install your system's protobuf-compiler package" >&2; exit 1; }
	cd messages && protoc --plugin=protoc-gen-go=$(PROTOC_GEN) --go_out=. --go_opt=paths=source_relative $(notdir $(PROTOS))

$(PROTOC_GEN): go.mod
	@mkdir -p $(BIN)
	$(GO) build -o $@ google.golang.org/protobuf/cmd/protoc-gen-go

verify: manual ## fail if generated files are stale, sources are not formatted, or the manual has mistakes
	@tmp=$$(mktemp -d) && cp messages/*.pb.go $$tmp/ && $(MAKE) --no-print-directory proto >/dev/null && \
	for f in messages/*.pb.go; do \
	  sed '/^\/\/ 	protoc  /d' $$f > $$tmp/new; sed '/^\/\/ 	protoc  /d' $$tmp/$$(basename $$f) > $$tmp/old; \
	  cp $$tmp/$$(basename $$f) $$f; \
	  cmp -s $$tmp/old $$tmp/new || { echo "$$f is stale: run make proto" >&2; rm -r $$tmp; exit 1; }; \
	done && rm -r $$tmp
	@unformatted=$$(gofmt -l actors cmd core docs edge messages persistence sim supervisor); \
	  test -z "$$unformatted" || { echo "not formatted: $$unformatted" >&2; exit 1; }
	@echo "generated files are up to date"

sim: build ## simulate SEEDS=1..2000 with all faults
	$(BIN)/lockstep-sim run --seeds $(SEEDS) --faults all

rooms: ## print the rooms of the source, their lines and who imports whom, and check the rules for that
	@$(GO) test -count=1 -v -run TestRooms ./docs | sed -n 's/^ *rooms_test.go:[0-9]*: //p; /FAIL\|imports/p'

scenario: ## run the text scenarios
	$(GO) test ./sim -run Scenario -v

conformance: build ## run Ganeti's own client programs, from Debian's packages, against a daemon
	.ci/ganeti-packages $(GANETI)
	GANETI_PACKAGES=$(abspath $(GANETI)) $(GO) test -count=1 -run Conformance ./cmd/internal/conformance ./cmd/lockstepd

conformance-cluster: build ## an operator's day on a real Ganeti cluster in namespaces, with lockstep in the place of its daemons
	@reason=$$(.ci/ganeti-layer $(BIN)/ganeti-layer) || { test $$? = 75 || exit 1; echo "NOT RUN: conformance-cluster: $$reason" >&2; }; \
	GANETI_LAYER=$(abspath $(BIN))/ganeti-layer NO_CLUSTER="$$reason" $(GO) test -count=1 -v -timeout $(if $(MEASURE),3h,30m) -run '$(strip $(if $(filter 3,$(NODES)),TestThree,$(CLUSTER)))' ./cmd/internal/realcluster

AXE := 4.14.1

$(BIN)/axe-core/axe.min.js:
	@mkdir -p $(BIN)/axe-core
	cd $(BIN)/axe-core && npm pack --silent axe-core@$(AXE) >/dev/null && tar -xzf axe-core-$(AXE).tgz --strip-components=1 package/axe.min.js && rm axe-core-$(AXE).tgz

browser: build $(BIN)/axe-core/axe.min.js ## drive headless Chromium at the console; screenshots go to var/console
	@command -v chromium >/dev/null || { echo "NOT RUN: browser: chromium is missing" >&2; exit 0; }; 	cd .ci/browser && $(GO) vet . && $(GO) test -count=1 -short -timeout 12m .

browser-load: build ## the console with 100,000 jobs, and under 1,000 changes a second
	cd .ci/browser && $(GO) test -count=1 -v -timeout 10m -run 'UnderLoad|DoesNotGrow' .

manual: ## build the manual pages and completions into bin/manual, and fail if mandoc objects
	@rm -rf $(BIN)/manual && mkdir -p $(BIN)/manual/man
	@$(SOURCE) $(GO) run ./cmd/lockstep/internal/lockstep-manual $(BIN)/manual
	@$(SOURCE) $(GO) run ./cmd/lockstepd --manual 8 > $(BIN)/manual/man/lockstepd.8
	@$(SOURCE) $(GO) run ./cmd/lockstepd --manual 5 > $(BIN)/manual/man/lockstepd.yaml.5
	@if command -v mandoc >/dev/null; then mandoc -Tlint -W warning $(BIN)/manual/man/*; else echo "NOT RUN: mandoc is missing, which checks the manual pages" >&2; fi

recording: build ## make docs/terminal/session.svg again, with Debian's termtosvg
	script -qec "termtosvg docs/terminal/session.svg -c 'docs/terminal/session $(abspath $(BIN))' -g 88x22 -m 20 -M 3000 -t window_frame" /dev/null >/dev/null

install: ## build and install below PREFIX=/usr/local, and DESTDIR
	$(SOURCE) PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) packaging/stage "$(PACKAGE_VERSION)"

packages: ## build .deb and .rpm into bin/packages
	@rm -rf $(PACKAGES)
	$(SOURCE) packaging/build $(PACKAGES) "$(PACKAGE_VERSION)"

packages-quick: packages ## lintian, and the .rpm in an empty root
	$(SOURCE) packaging/test/check $(PACKAGES) "$(PACKAGE_VERSION)" files

limits-check: packages ## the limits of commands, enforced by the kernel of a virtual machine, also over a restart and an upgrade
	$(SOURCE) packaging/test/check $(PACKAGES) "$(PACKAGE_VERSION)" limits

packages-check: packages ## packages-quick; limits-check; and start, restart, upgrade, removal and purge under a real systemd
	$(SOURCE) packaging/test/check $(PACKAGES) "$(PACKAGE_VERSION)"

packages-repeat: packages ## fail unless a second build, in another directory and without a C compiler, gives the same packages
	$(SOURCE) packaging/test/repeat $(PACKAGES) "$(PACKAGE_VERSION)"

packages-ganeti: packages ## install, upgrade and remove lockstep-ganeti on a Ganeti cluster in namespaces
	$(SOURCE) packaging/test/ganeti $(PACKAGES) "$(PACKAGE_VERSION)" $(BIN)

container: packages ## build the container image, an OCI archive, as bin/lockstep-image.tar
	$(SOURCE) packaging/image $(BIN)/lockstep-image.tar $(PACKAGES)/lockstep_*.deb "$(PACKAGE_VERSION)" || test $$? = 77 # NOT RUN

container-check: container ## run the image's root as three nodes, and jobs through the loss of the master
	packaging/test/container $(BIN)/lockstep-image.tar.root || test $$? = 77 # NOT RUN

bench: build ## measure lockstep next to the limits of this machine, on the disk of VAR
	$(BIN)/lockstep-bench --dir $(VAR) $(BENCH)

bench-guard: build ## fail if lockstep is far slower than it was, next to the limits of this machine
	$(BIN)/lockstep-bench --dir $(VAR) --guard

microbench: ## run the benchmarks of single packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

demo: build ## a throw-away daemon runs a small real workload, in about ten seconds
	@$(BIN)/lockstep demo

demo-cluster: build ## three throw-away daemons share a queue while their master is killed
	@$(BIN)/lockstep demo --cluster

run: build ## a daemon in ./var, in the foreground
	$(BIN)/lockstepd --data-dir $(VAR)/lib --run-dir $(VAR)/run --log-dir $(VAR)/log

# lint has run go vet. The packages whose tests take longest are the first of RACE, so that no processor waits for the last one.
check: lint verify ## what CI runs: lint, verify and test, with the race detector; needs no network once modules are there
	@$(MAKE) --no-print-directory test LONGTEST_PART=1 DAEMON_FLAGS='-config.megabytes=100' CLUSTER_FLAGS= VET=-vet=off RACE="./supervisor/... ./edge/... ./persistence/... ./actors/... ./core/..."

clean: ## remove what was built
	rm -rf $(BIN)
