# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

# SwiftPM and the tests leave files in the temporary folder: give them one of ours.
export TMPDIR := $(CURDIR)/.build/tmp

# Flags change what is built, so these builds have folders of their own: neither undoes the other.
CHECK_FOLDER := .build-check
TSAN_FOLDER := .build-tsan

SOURCES := Package.swift Sources Instruments Tests

# What a build must not have. In CI the build of the tests has these flags, so that it is the check's build as well.
STRICT_FLAGS := --build-system native -Xswiftc -warnings-as-errors --explicit-target-dependency-import-check error

RULES := etc/prometheus/siwatch.rules.yml

# With Swift's libraries inside, the program runs where no Swift is installed. Linux only. Nothing loads the program, so
# it exports no symbols.
RELEASE_FLAGS = $(if $(filter Linux,$(shell uname -s)),--static-swift-stdlib -Xlinker --no-export-dynamic \
	$(shell scripts/small-icu.py .build/icu))

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: setup ## Build everything for development
	swift build

.PHONY: release
release: setup ## Build siwatch for installation: .build/siwatch, and its symbols beside it
	swift build -c release $(RELEASE_FLAGS) --product siwatch
	@scripts/split-symbols.sh .build/release/siwatch .build/siwatch

.PHONY: deb
deb: release ## Build the Debian package of siwatch, and that of its symbols: .build/siwatch_VERSION_ARCHITECTURE.deb
	@rm -f .build/siwatch*.deb
	@scripts/setup.sh debian
	@scripts/build_deb.sh

.PHONY: demo
demo: setup ## Watch siwatch at work against a simulated Apple on this machine
	swift build --product siwatch-demo
	@.build/debug/siwatch-demo $(ARGS)

.PHONY: test
test: setup setup-postgres check-rules ## Run all tests, with STRICT=1 as built by make check
	swift build $(if $(STRICT),$(STRICT_FLAGS)) --build-tests
	@scripts/run_tests.sh $(ARGS)

.PHONY: test-tsan
test-tsan: setup setup-test setup-postgres ## Run all tests under the thread sanitizer, one by one (slow)
	@PATH="$(CURDIR)/.build/tools:$$PATH" swift test --scratch-path $(TSAN_FOLDER) --sanitize=thread --no-parallel $(ARGS)

.PHONY: test-kills
test-kills: setup setup-test setup-postgres ## Kill siwatch among codes, revocations and webhooks, and their receiver: KILLS=40
	@SIWATCH_TEST_KILLS=$(or $(KILLS),40) swift test --filter 'LaneKillTests|WebhookKillTests'

.PHONY: test-chaos
test-chaos: setup setup-postgres ## Strike three siwatch on a server: FAULTS=300, ROWS=20000 of each lane, SEED=123
	@SIWATCH_TEST_FAULTS=$(or $(FAULTS),300) SIWATCH_TEST_ROWS=$(or $(ROWS),20000) \
		$(if $(SEED),SIWATCH_TEST_SEED=$(SEED)) swift test --filter ChaosTests

.PHONY: test-fleet-kills
test-fleet-kills: setup setup-postgres ## Kill three siwatch in turn, MINUTES=10, and compare the end with one on a file
	@SIWATCH_TEST_MINUTES=$(or $(MINUTES),10) \
		$(if $(SEED),SIWATCH_TEST_SEED=$(SEED)) swift test --filter FleetKillTests

.PHONY: test-systemd
test-systemd: setup ## Boot a container with systemd, as root, and see that siwatch.service works there
	@scripts/setup.sh systemd
	swift build --product siwatch
	swift build --product apple-simulator
	@scripts/test_systemd.sh .build/debug/siwatch .build/debug/apple-simulator

.PHONY: test-container
test-container: setup setup-postgres ## Run the files of packaging/ in containers, as root: ARGS="compose", SIWATCH=FILE for a release build
	@scripts/setup.sh container
	@if [ -z "$(SIWATCH)" ]; then swift build --product siwatch; fi
	swift build --product apple-simulator
	@PATH="$(CURDIR)/.build/tools:$$PATH" scripts/test_container.py $(or $(SIWATCH),.build/debug/siwatch) .build/debug/apple-simulator $(ARGS)

.PHONY: test-package
test-package: deb ## Boot a container with systemd, as root: install, upgrade, remove and purge the Debian package there
	@scripts/setup.sh systemd
	@scripts/test_package.sh .build/siwatch_*.deb

.PHONY: test-page
test-page: setup ## Look at the page of a siwatch at work in a headless Chromium: SHOTS=folder keeps the screenshots
	swift build --product siwatch
	swift build --product apple-simulator
	@scripts/test_page.sh .build/debug/siwatch .build/debug/apple-simulator $(SHOTS)

.PHONY: test-http
test-http: setup ## Ask the HTTP door whatever its OpenAPI document allows, and what it does not: ARGS="--max-examples 500"
	swift build --product siwatch
	swift build --product apple-simulator
	@scripts/test_http.sh .build/debug/siwatch .build/debug/apple-simulator $(ARGS)

.PHONY: test-examples
test-examples: setup ## Sign in to each backend of Examples/ as a user does: ARGS="fastapi go", or ARGS="--serve go" to try one by hand
	swift build --product siwatch
	swift build --product apple-simulator
	swift build --product hummingbird-backend
	@scripts/test_examples.py .build/debug/siwatch .build/debug/apple-simulator $(ARGS)

.PHONY: walk-runbooks
walk-runbooks: setup setup-test setup-postgres ## Break a siwatch for each alert and compare its runbook, as root: ARGS="--only NAME"
	swift build --product siwatch
	swift build --product apple-simulator
	@scripts/walk_runbooks.py $(ARGS)

.PHONY: simulate
simulate: setup ## Simulate days of trouble: SEEDS=100000, or SEED=123 for one, USERS=10000 for known disasters, STORE=postgres
	@if [ "$(STORE)" = postgres ]; then $(MAKE) setup-postgres; fi
	swift build -c release --product siwatch-simulate
	@.build/release/siwatch-simulate $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),$(if $(STORE),2000,20000))) \
		$(if $(USERS),--users $(USERS)) $(if $(STORE),--store $(STORE))

.PHONY: plant-bugs
plant-bugs: setup setup-postgres ## Plant known bugs one by one and see that each is found, ARGS=--tests: those that suites find
	@scripts/plant_bugs.py $(ARGS)

.PHONY: lint
lint: ## Check format and the places of planted bugs
	scripts/plant_bugs.py --check
	swift format lint --strict --recursive --parallel $(SOURCES)

.PHONY: check
check: setup lint ## Check the same and imports, and build with warnings as errors
	swift build --scratch-path $(CHECK_FOLDER) $(STRICT_FLAGS) --build-tests

.PHONY: check-rules
check-rules: setup-test ## Check the alerts and the dashboard, with SCRAPE=FILE also against what /metrics answers
	@PATH="$(CURDIR)/.build/tools:$$PATH" && export PATH && \
	if ! command -v promtool >/dev/null; then \
		echo "promtool is missing and could not be fetched, so the alerts are not checked." >&2; exit 1; \
	fi && \
	promtool check rules $(RULES) && \
	promtool test rules $(RULES:.yml=.test.yml) $(RULES:.yml=.days.test.yml) && \
	python3 scripts/check-dashboard.py $(if $(SCRAPE),--scrape "$(SCRAPE)") && \
	python3 scripts/check_dashboard_test.py

.PHONY: bench
bench: setup setup-postgres ## Measure on this machine, with a release build
	swift build -c release --product siwatch-bench
	@.build/release/siwatch-bench $(ARGS)

.PHONY: format
format: ## Format all Swift code in place
	swift format --in-place --recursive --parallel $(SOURCES)

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf .build $(CHECK_FOLDER) $(TSAN_FOLDER)

.PHONY: setup
setup:
	@scripts/setup.sh swift headers

.PHONY: setup-test
setup-test:
	@scripts/setup.sh promtool python openssl

.PHONY: setup-postgres
setup-postgres:
	@scripts/setup.sh postgres
