# Two commands on a fresh Debian 12: `make run` and `make test`. Both may be repeated at any time, as
# root or as a user with sudo.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BUILD ?= build
JOBS ?= $(shell nproc)
MODEL ?= smollm2-135m-instruct
PROMPT ?= Explain in two sentences why the sky is blue.
TENON := $(BUILD)/release/bin/tenon
PYTHON := .venv/bin/python

.PHONY: help run test build lint fuzz bench install-build install-dev model models asan tsan coverage clean

help:
	@echo "make run    install what is needed, build, fetch the default model, answer a prompt"
	@echo "make test   the same, then all tests"
	@echo "make build  the release binary: $(TENON)"
	@echo "make lint   formatting, clang-tidy, and the rules of scripts/"
	@echo "make fuzz   each fuzz target for a minute"
	@echo "make bench  the table against llama.cpp"
	@echo "make asan, make tsan   the tests under sanitizers; make coverage: a coverage report"

install-build:
	@scripts/install_packages.sh build

install-dev:
	@scripts/install_packages.sh dev
	@scripts/setup_python.sh

build: install-build
	@echo "== building $(TENON)"
	@cmake --preset release -B $(BUILD)/release > $(BUILD)-configure.log 2>&1 || (cat $(BUILD)-configure.log; exit 1)
	@rm -f $(BUILD)-configure.log
	@cmake --build $(BUILD)/release -j $(JOBS) --target tenon

model: build
	@$(TENON) pull $(MODEL)

models: build
	@$(TENON) pull smollm2-135m-instruct
	@$(TENON) pull gemma-3-270m

run: model
	@$(TENON) run $(MODEL) -p "$(PROMPT)"

test: install-dev
	@echo "== building the tests in $(BUILD)/dev"
	@cmake --preset dev -B $(BUILD)/dev
	@cmake --build $(BUILD)/dev -j $(JOBS)
	@$(BUILD)/dev/bin/tenon pull smollm2-135m-instruct
	@$(BUILD)/dev/bin/tenon pull gemma-3-270m
	@scripts/run_tests.sh $(BUILD)/dev

# Nothing is built but the generated headers: clang-tidy can't read g++'s precompiled ones, so it has
# a configuration of its own without them.
lint: install-dev
	@cmake --preset lint -B $(BUILD)/lint > /dev/null
	@cmake --build $(BUILD)/lint --target generated
	@scripts/lint.sh $(BUILD)/lint

# The engine's tests: all but the command line from outside, the downloads and the cross builds.
SANITIZED := base quant hal graph gguf hf tokenizer chat arch sample kv spine
asan tsan: install-dev
	@cmake --preset $@ -B $(BUILD)/$@
	@cmake --build $(BUILD)/$@ -j $(JOBS) --target $(addsuffix _test,$(SANITIZED))
	@scripts/run_tests.sh $(BUILD)/$@ -L '^($(subst $(eval ) ,|,$(SANITIZED)))$$' -E '_NOT_BUILT|Reference|FullGolden|StaysNear|parity'

fuzz: install-dev
	@cmake --preset fuzz -B $(BUILD)/fuzz
	@cmake --build $(BUILD)/fuzz -j $(JOBS) --target all_fuzz
	@scripts/run_fuzz.sh $(BUILD)/fuzz 60

coverage: install-dev models
	@cmake --preset coverage -B $(BUILD)/coverage
	@cmake --build $(BUILD)/coverage -j $(JOBS)
	@scripts/run_tests.sh $(BUILD)/coverage
	@gcovr --root . --filter src/ $(BUILD)/coverage

bench: install-dev model
	@bench/compare.sh $(TENON) $(MODEL)

clean:
	@rm -rf $(BUILD)
