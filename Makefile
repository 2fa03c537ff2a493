# make demo: run all steps on the documents of examples.  make test: what CI runs.  make fuzz: MUTATIONS of models and data,
# then random tests, for MINUTES; or only those of TESTS="tests/data/test_svm.py -k reader".
# make build: install again after a change.  make wheel: build and try a wheel.  make docs: build the site in build/site.
# make bench DATA=DIR: compare with other libraries (see benchmarks/README.md).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find native -name '*.h' -o -name '*.cpp')
comma := ,
PYTEST := $(BIN)/pytest -n auto --maxprocesses 8 --dist worksteal

.PHONY: demo test fuzz guided-fuzz build wheel annif-check lint tidy docs bench bench-kernels bench-scale bench-seeds bench-optimum bench-compact bench-tables crash powercut sanitize clean

demo: $(VENV)/.installed
	$(BIN)/labeltree demo

test: $(VENV)/.installed-test
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)
	@echo "$(BIN)/mypy & $(PYTEST)"; $(BIN)/mypy & types=$$!; $(PYTEST); tests=$$?; wait $$types && exit $$tests

# Tries MUTATIONS random changes of models and as many of data files, and fuzzes each of TARGETS for MINUTES, unless
# TESTS are given. Then runs the property tests with new random examples each time, until MINUTES have passed or a
# test fails.
MINUTES ?= 5
MUTATIONS ?= 20000
fuzz: $(VENV)/.installed-test
	$(if $(TESTS),,$(BIN)/python tools/fuzz.py models --count $(MUTATIONS) --seed $$(date +%s))
	$(if $(TESTS),,$(BIN)/python tools/fuzz.py readers --count $(MUTATIONS) --seed $$(date +%s))
	$(if $(TESTS),,for target in $(TARGETS); do $(MAKE) guided-fuzz TARGET=$$target || exit 1; done)
	@end=$$(($$(date +%s) + 60 * $(MINUTES))); while [ $$(date +%s) -lt $$end ]; do \
	    run="$(PYTEST) --hypothesis-profile fuzz --hypothesis-seed $$(date +%s)"; \
	    echo "$$run"; $$run -m hypothesis $(TESTS) || { echo "Again: $$run NAME-OF-TEST" >&2; exit 1; }; \
	done

# Fuzzes a reader or the opening of models for MINUTES, guided by the coverage of Python code and kernels, in an
# environment of its own.
TARGET ?= svm
TARGETS ?= svm tsv csv jsonl model
guided-fuzz:
	test -x build/traced/bin/pip || $(PYTHON) -m venv build/traced
	build/traced/bin/pip install --quiet --disable-pip-version-check atheris -Ccmake.define.LABELTREE_TRACE=ON '.[test]'
	build/traced/bin/python tools/guided_fuzz.py $(TARGET) --minutes $(MINUTES) $(if $(CORPUS),--corpus "$(CORPUS)")

build: $(VENV)/.installed-test

# Builds the source distribution and a wheel for this Python in dist, and runs the demo from the wheel.
wheel:
	$(PYTHON) tools/build_wheel.py $(OPTIONS)

# Tests the backend for Annif with the released package, in build/annif.
annif-check: $(VENV)/.installed
	$(BIN)/python tools/annif_check.py $(OPTIONS)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE)
	$(BIN)/mypy

# Static analysis of the native code; takes a few minutes.
tidy: $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check clang-tidy cmake nanobind ninja
	$(BIN)/cmake -S . -B build/tidy -G Ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DPython_EXECUTABLE="$(abspath $(BIN))/python" \
	    -DCMAKE_MAKE_PROGRAM="$(abspath $(BIN))/ninja" > /dev/null
	$(BIN)/clang-tidy -p build/tidy --quiet $(filter %.cpp,$(NATIVE))

# Warnings are errors.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html; with search: python3 -m http.server -d build/site"

OUT ?= build/bench
bench: $(VENV)/.installed
	@test -n "$(DATA)" || { echo "make bench needs DATA=, a directory with one subdirectory per dataset" >&2; exit 2; }
	$(BIN)/python benchmarks/peers/run.py "$(DATA)" --out "$(OUT)" $(if $(ENVS),--envs "$(ENVS)") \
	    $(if $(PEERS),--peers "$(PEERS)") $(if $(DATASETS),--datasets "$(DATASETS)") \
	    $(if $(VARIANTS),--variants "$(VARIANTS)") $(if $(CONTINUE),--continue) $(OPTIONS)

# Compares each kernel with a lower bound; DATA is a directory with train.svm and test.svm.
bench-kernels: $(VENV)/.installed
	$(BIN)/python benchmarks/kernels.py $(DATA)

# Means and standard errors of P@k over seeds; DATA is one or more directories with train.svm and test.svm.
bench-seeds: $(VENV)/.installed
	$(BIN)/python benchmarks/seeds.py $(DATA) $(OPTIONS)

# Compares sampled binary problems with LIBLINEAR's optimum.
bench-optimum: $(VENV)/.installed
	$(BIN)/python benchmarks/optimum.py $(DATA) $(OPTIONS)

# Interrupts training hundreds of times and compares the models; takes about half an hour.
crash: $(VENV)/.installed
	$(BIN)/python tools/crash.py $(OPTIONS)

# Cuts the power of a simulated disk; needs root, for a loop device.
powercut: $(VENV)/.installed
	$(BIN)/python tools/powercut.py $(OPTIONS)

# Runs the tests of the kernels with SANITIZER=address,undefined or SANITIZER=thread, in an environment of its own.
SANITIZER ?= address,undefined
KERNEL_TESTS := tests/data tests/trees tests/model tests/training
SANITIZED := build/sanitize-$(firstword $(subst $(comma), ,$(SANITIZER)))
RUNTIME := $(if $(findstring thread,$(SANITIZER)),libtsan.so,libasan.so)
sanitize:
	test -x $(SANITIZED)/bin/pip || $(PYTHON) -m venv $(SANITIZED)
	$(SANITIZED)/bin/pip install --quiet --disable-pip-version-check -Ccmake.define.LABELTREE_SANITIZE=$(SANITIZER) '.[test]'
	LD_PRELOAD="$$($(CXX) -print-file-name=$(RUNTIME)) $$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1 \
	  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(SANITIZED)/bin/pytest -q -p no:cacheprovider $(or $(TESTS),$(KERNEL_TESTS))

# Sizes, precision and speed of compact models, with a threshold chosen on held-out rows.
bench-compact: $(VENV)/.installed
	$(BIN)/python benchmarks/compact.py $(DATA) $(OPTIONS)

# Measures how cost grows with the labels, for example OUT=DIR LIKE=amazon-670k SIZES="1/27 1/9 1/3 1".
bench-scale: $(VENV)/.installed
	$(BIN)/python benchmarks/scale.py "$(OUT)" \
	  $(if $(LIKE),--like $(LIKE)) $(if $(SIZES),--scales $(SIZES))

# Rewrites the tables of README.md and benchmarks/RESULTS.md from benchmarks/results.
bench-tables: $(VENV)/.installed
	$(BIN)/python benchmarks/publish.py

SOURCES := pyproject.toml CMakeLists.txt $(NATIVE) $(shell find src -type f -not -path '*__pycache__*')

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(SOURCES)
	@echo "Installing labeltree and its optional packages into $(VENV); compiling takes a minute or two ..."
	@start=$$(date +%s); $(BIN)/python -m pip install --quiet --disable-pip-version-check '.[all]' && \
	    echo "Installed in $$(($$(date +%s) - start)) s."
	@touch $@

$(VENV)/.installed-test: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check $(if $(CI),-Ccmake.define.LABELTREE_WERROR=ON) '.[test]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[docs]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build
