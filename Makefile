# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

# SwiftPM and the tests leave files in the temporary folder: give them one of ours.
export TMPDIR := $(CURDIR)/.build/tmp

# What every call of swift gets, so that tests, checks, the demo and CI share one build. The build system is named, because the next Swift
# has another default. Nobody reads the debug information of a test, nor what the index says of
# modules of others, and they take time to write.
export SWIFT_FLAGS := --build-system native -debug-info-format none -Xswiftc -index-ignore-system-modules \
	-Xswiftc -index-ignore-clang-modules -Xswiftc -warnings-as-errors
BUILD := swift build $(SWIFT_FLAGS)
TEST := scripts/run_tests.sh
# The folder of what was built.
BIN = $(shell $(BUILD) --show-bin-path)

# Other flags, so folders of their own: no build undoes another.
TSAN_FOLDER := .build-tsan
RELEASE_FOLDER := .build-release

SOURCES := Package.swift Sources Instruments Tests

RULES := etc/prometheus/siwatch.rules.yml

# No path of this folder is in what is built, so that another folder builds the same. Swift would note the module cache, which has names
# that depend on the folder.
PREFIX_MAP := $(CURDIR)=/usr/src/siwatch
PREFIX_FLAGS := -Xswiftc -file-prefix-map -Xswiftc $(PREFIX_MAP) -Xswiftc -Xfrontend -Xswiftc -no-clang-module-breadcrumbs \
	-Xcc -ffile-prefix-map=$(PREFIX_MAP) -Xcxx -ffile-prefix-map=$(PREFIX_MAP)

# With Swift's libraries inside, the program runs where no Swift is installed. Linux only. Nothing loads the program, so
# it exports no symbols.
RELEASE_FLAGS = --build-system native -c release --scratch-path $(RELEASE_FOLDER) $(PREFIX_FLAGS) $(if $(filter Linux,$(shell uname -s)),--static-swift-stdlib -Xlinker --no-export-dynamic \
	$(shell scripts/small-icu.py .build/icu))

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: setup ## Build everything for development
	$(BUILD)

.PHONY: bin
bin: ## Print the folder of the programs that make build has built
	@$(BUILD) --show-bin-path

.PHONY: release
release: setup ## Build siwatch for installation: .build/siwatch, and its symbols beside it
	swift build $(RELEASE_FLAGS) --product siwatch
	@scripts/split-symbols.sh "$$(swift build $(RELEASE_FLAGS) --show-bin-path)/siwatch" .build/siwatch

.PHONY: release-simulator
release-simulator: setup
	swift build $(RELEASE_FLAGS) --product siwatch-simulator
	@scripts/split-symbols.sh "$$(swift build $(RELEASE_FLAGS) --show-bin-path)/siwatch-simulator" .build/siwatch-simulator

.PHONY: deb
deb: release release-simulator ## Build the Debian packages of siwatch, its symbols and the simulator: .build/siwatch_VERSION_ARCHITECTURE.deb
	@rm -f .build/siwatch*.deb
	@scripts/setup.sh debian
	@scripts/build_deb.sh .build/siwatch $(RELEASE_FOLDER)/checkouts

.PHONY: dist
dist: deb ## As root on Debian: build everything of a release, dist/VERSION
	@scripts/setup.sh dist
	@scripts/build_dist.py $(RELEASE_FOLDER)/checkouts

.PHONY: compare-dist
compare-dist: ## Build what is committed twice, in two folders, and name what differs: ARGS="FOLDER FOLDER" compares what is built
	@scripts/compare_dist.py $(ARGS)

# Without our temporary folder, so that siwatch-simulator trigger finds it in another terminal.
.PHONY: dev
dev: programs ## Try siwatch beside a simulated Apple, with three curl lines to paste: ARGS="--webhook URL"
	@env -u TMPDIR $(BIN)/siwatch-simulator dev $(ARGS)

.PHONY: demo
demo: setup ## Watch siwatch at work against a simulated Apple on this machine
	$(BUILD) --product siwatch-demo
	@$(BIN)/siwatch-demo $(ARGS)

.PHONY: test
test: tests $(if $(ARGS),,.build/rules.checked) ## Run what every change has to pass: ARGS="--filter CredentialCoreTests"
	@$(TEST) $(ARGS)

.PHONY: test-long
test-long: ## Run all that is long, one target after another, and print a table: ONLY="test-kills simulate"
	@scripts/test_long.py $(ONLY)

.PHONY: tests
tests: setup setup-test setup-postgres
	$(BUILD) --build-tests

.PHONY: programs
programs: setup
	$(BUILD) --product siwatch
	$(BUILD) --product siwatch-simulator

.PHONY: test-tsan
test-tsan: setup setup-test setup-postgres ## Run all tests under the thread sanitizer, one by one (slow)
	@PATH="$(CURDIR)/.build/tools:$$PATH" swift test $(subst -debug-info-format none,,$(SWIFT_FLAGS)) --scratch-path $(TSAN_FOLDER) --sanitize=thread --no-parallel $(ARGS)

.PHONY: test-kills
test-kills: tests ## Kill siwatch among codes, revocations and webhooks, and their receiver: KILLS=40
	@SIWATCH_TEST_KILLS=$(or $(KILLS),40) $(TEST) --filter 'LaneKillTests|WebhookKillTests'

.PHONY: test-chaos
test-chaos: tests ## Strike three siwatch on a server: FAULTS=300, ROWS=20000 of each lane, SEED=123
	@SIWATCH_TEST_FAULTS=$(or $(FAULTS),300) SIWATCH_TEST_ROWS=$(or $(ROWS),20000) \
		$(if $(SEED),SIWATCH_TEST_SEED=$(SEED)) $(TEST) --filter ChaosTests

.PHONY: test-fleet-kills
test-fleet-kills: tests ## Kill three siwatch in turn, MINUTES=10, and compare the end with one on a file
	@SIWATCH_TEST_MINUTES=$(or $(MINUTES),10) \
		$(if $(SEED),SIWATCH_TEST_SEED=$(SEED)) $(TEST) --filter FleetKillTests

.PHONY: test-systemd
test-systemd: programs ## Boot a container with systemd, as root, and see that siwatch.service works there
	@scripts/setup.sh systemd
	@scripts/test_systemd.sh $(BIN)/siwatch $(BIN)/siwatch-simulator

.PHONY: test-container
test-container: setup-postgres programs ## Run the files of packaging/ in containers, as root: ARGS="compose", SIWATCH=FILE for a release build
	@scripts/setup.sh container
	@PATH="$(CURDIR)/.build/tools:$$PATH" scripts/test_container.py $(or $(SIWATCH),$(BIN)/siwatch) $(BIN)/siwatch-simulator $(ARGS)

.PHONY: test-package
test-package: deb ## Boot a container with systemd, as root: install, upgrade, remove and purge the Debian package there
	@scripts/setup.sh systemd
	@scripts/test_package.sh .build/siwatch_*.deb

.PHONY: test-dist
test-dist: ## As root: install and use each file of a release in dist/VERSION, made by make dist: ONLY="python image"
	@scripts/setup.sh python openssl systemd container dist node
	@PATH="$(CURDIR)/.build/tools:$$PATH" scripts/test_dist.py $(ONLY)

.PHONY: test-page
test-page: programs ## Look at the page of a siwatch at work in a headless Chromium: SHOTS=folder keeps the screenshots
	@scripts/test_page.sh $(BIN)/siwatch $(BIN)/siwatch-simulator $(SHOTS)

.PHONY: test-http
test-http: programs ## Ask the HTTP door whatever its OpenAPI document allows, and what it does not: ARGS="--max-examples 500"
	@scripts/test_http.sh $(BIN)/siwatch $(BIN)/siwatch-simulator $(ARGS)

.PHONY: test-examples
test-examples: programs ## Sign in to each backend of Examples/ as a user does: ARGS="fastapi go", or ARGS="--serve go" to try one by hand
	$(BUILD) --product hummingbird-backend
	@scripts/test_examples.py $(BIN)/siwatch $(BIN)/siwatch-simulator $(ARGS)

.PHONY: walk-runbooks
walk-runbooks: setup-test setup-postgres programs ## Break a siwatch for each alert and compare its runbook, as root: ARGS="--only NAME"
	@scripts/walk_runbooks.py --siwatch $(BIN)/siwatch --simulator $(BIN)/siwatch-simulator $(ARGS)

.PHONY: simulate
simulate: setup ## Simulate days of trouble: SEEDS=100000, or SEED=123 for one, USERS=10000 for known disasters, STORE=postgres
	@if [ "$(STORE)" = postgres ]; then $(MAKE) setup-postgres; fi
	swift build $(RELEASE_FLAGS) --product siwatch-simulate
	@"$$(swift build $(RELEASE_FLAGS) --show-bin-path)/siwatch-simulate" $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),$(if $(STORE),2000,20000))) \
		$(if $(USERS),--users $(USERS)) $(if $(STORE),--store $(STORE))

.PHONY: plant-bugs
plant-bugs: setup setup-postgres ## Plant known bugs one by one and see that each is found, ARGS=--tests: those that suites find
	@scripts/plant_bugs.py $(ARGS)

.PHONY: test-full
test-full: tests ## Run at full length the tests that make test runs shorter, and plant bugs in the simulation
	@SIWATCH_TEST_FULL=1 $(TEST) --filter 'SimulationTests|RandomTrafficTests|FileWriterTests|ImportUndoCommandTests'

.PHONY: lint
lint: ## Check the format, the budgets of lines, and the places of planted bugs
	scripts/check_line_budget.py
	scripts/plant_bugs.py --check
	swift format lint --strict --recursive --parallel $(SOURCES)

.PHONY: check
check: lint setup setup-test setup-postgres ## Check what lint checks, imports and warnings, by the build that make test uses
	@# To look at the imports of every file takes 18 seconds, even where nothing is to build.
	$(BUILD) --build-tests --explicit-target-dependency-import-check error

.PHONY: check-rules
check-rules: setup-test ## Check the alerts and the dashboard, with SCRAPE=FILE also against what /metrics answers
	@PATH="$(CURDIR)/.build/tools:$$PATH" && export PATH && \
	if ! command -v promtool >/dev/null; then \
		echo "promtool is missing and could not be fetched, so the alerts are not checked." >&2; exit 1; \
	fi && \
	promtool check rules $(RULES) && \
	printf '%s\n' $(RULES:.yml=.test.yml) $(RULES:.yml=.days.test.yml) | xargs -n 1 -P 2 promtool test rules && \
	python3 scripts/check-dashboard.py $(if $(SCRAPE),--scrape "$(SCRAPE)") && \
	python3 scripts/check_dashboard_test.py

# Only what has changed is checked again.
.build/rules.checked: $(wildcard etc/prometheus/*) $(wildcard etc/grafana/*) $(wildcard scripts/check*dashboard*) docs/alerts.md Makefile
	@$(MAKE) check-rules && touch $@

.PHONY: bench
bench: setup setup-postgres ## Measure on this machine, as built for installation
	swift build $(RELEASE_FLAGS) --product siwatch-bench
	@"$$(swift build $(RELEASE_FLAGS) --show-bin-path)/siwatch-bench" $(ARGS)

.PHONY: format
format: ## Format all Swift code in place
	swift format --in-place --recursive --parallel $(SOURCES)

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf .build dist $(TSAN_FOLDER) $(RELEASE_FOLDER) .build-bugs

.PHONY: setup
setup:
	@scripts/setup.sh swift headers

.PHONY: setup-test
setup-test:
	@scripts/setup.sh promtool python openssl

.PHONY: setup-postgres
setup-postgres:
	@scripts/setup.sh postgres
