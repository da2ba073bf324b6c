# SPDX-License-Identifier: Apache-2.0
# A thin front of the CMake presets. A part of the tests: make test LABEL=unit PRESET=asan-ubsan
PRESET ?= dev
LABEL ?=
PREFIX ?= /usr/local
ARGS ?=

.PHONY: help demo test nightly mutants mutate coverage bench limits instructions performance install format format-check clean setup

help:
	@echo 'make demo      build the library and the samples, and run the demo (no GPU needed)'
	@echo 'make test      build and run the tests; LABEL=unit for a part, PRESET=asan-ubsan or tsan'
	@echo 'make nightly   everything that takes long, with fresh seeds: hours'
	@echo 'make mutants   break one rule after another, and see the case named for it fail'
	@echo 'make mutate    mutants that nobody chose, of what differs from origin/main; ARGS=--help; needs Python 3'
	@echo 'make coverage  print how much of the library the tests run, and every line that they should and do not'
	@echo 'make bench     measure; ARGS are passed on'
	@echo 'make limits    measure, and print every limit with its target; fails where one is missed'
	@echo 'make instructions  count what allocations and frees execute, against what is recorded; ARGS=--record'
	@echo 'make performance  write the tables and pictures of docs/performance.md and the README from bench/results; needs Python 3'
	@echo 'make install   install the library; PREFIX=/usr/local'
	@echo 'make format    format the sources with clang-format'
	@echo 'make format-check  name the files that make format would change'
	@echo 'make clean     remove build/'

demo: setup
	@$(call build,release,demo)
	@build/release/bin/demo $(ARGS)

test: setup
	@$(call build,$(PRESET),all)
	@if ls /dev/nvidia[0-9]* >/dev/null 2>&1; then echo 'GPU found: its suites run on it, the others on the simulated driver'; \
	else echo 'no GPU found: tests run on the simulated driver, and suites that need a GPU are skipped'; fi
	@ctest --preset $(PRESET) $(if $(LABEL),-L '$(LABEL)')

nightly:
	@tools/nightly.sh

mutants: setup
	@tests/mutants/mutants.sh $(ARGS)

mutate: setup
	@tools/mutate.sh $(ARGS)

coverage: setup
	@tests/coverage/coverage.sh $(ARGS)

bench: setup
	@$(call build,release,tarn_bench)
	@build/release/bin/tarn_bench $(ARGS)

limits: setup
	@$(call build,release,tarn_bench)
	@build/release/bin/tarn_bench --limits $(ARGS)

instructions: setup
	@$(call build,release,tarn_instructions)
	@tools/instructions.sh $(ARGS)

performance:
	@tools/performance.py $(ARGS)

install: setup
	@$(call build,release,all)
	@cmake --install build/release --prefix '$(PREFIX)'

setup:
	@tools/setup.sh

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

format-check:
	@tools/format_check.sh

clean:
	rm -rf build

# $(call build,preset,target)
define build
cmake --preset $(1) >/dev/null && cmake --build --preset $(1) --target $(2)
endef
