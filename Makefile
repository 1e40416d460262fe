# Everything a newcomer needs: `make demo` to see it, `make test` to check it, `make bench` to time it.

VENV := .venv
RUFF := $(VENV)/bin/ruff
MATURIN := $(VENV)/bin/maturin
NEXTEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo yes)

.PHONY: demo build test lint rust-test python-test browser-test golden bench bench-embed bench-learn bench-nets bench-encoder bench-refresh bench-kernels wheel wheel-test fuzz soak

demo: build
	target/release/veridical demo --out demo --force

build:
	cargo build --release --locked -p veridical-cli

test: lint rust-test python-test browser-test wheel-test

lint: $(RUFF)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	$(RUFF) check .
	$(RUFF) format --check .

# Benches are compiled by clippy alone: nothing in them is a test.
WITHOUT_BENCHES := $(addprefix --exclude ,$(notdir $(patsubst benches/%/Cargo.toml,bench-%,$(wildcard benches/*/Cargo.toml))))
rust-test:
ifeq ($(NEXTEST),yes)
	cargo nextest run --workspace $(WITHOUT_BENCHES) --locked --no-fail-fast
else
	cargo test --workspace $(WITHOUT_BENCHES) --locked --all-targets
endif
	cargo test --workspace $(WITHOUT_BENCHES) --locked --doc

python-test: $(VENV)/.installed
	python3 python/reference/check_reference.py
	cargo build --workspace $(WITHOUT_BENCHES) --tests --locked --quiet
	$(VENV)/bin/pytest -q -p no:cacheprovider python/tests

# Reports in a real browser: `tests/browser/`. Pictures of every page are left in target/browser to look at.
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser)
browser-test:
ifeq ($(and $(shell command -v npm),$(CHROMIUM)),)
	@echo "browser-test is skipped: it needs node, npm and Chromium (apt-get install npm chromium, or CHROMIUM=path)"
else
	cargo build --workspace $(WITHOUT_BENCHES) --tests --examples --locked --quiet
	npm ci --prefix tests/browser --silent --no-audit --no-fund
	tests/browser/pages.sh target/debug target/browser
	CHROMIUM=$(CHROMIUM) PAGES=target/browser node --test tests/browser/report.test.js
endif

# dist/veridical-VERSION-py3-none-PLATFORM.whl: the command for people without Rust. maturin takes
# veridical.data/data/ along to the root of the environment: man pages and completions.
PROFILE ?= release
DIST ?= dist
SHARE := veridical.data/data/share
wheel: PROGRAM = target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/veridical
wheel: $(MATURIN)
	cargo build --profile $(PROFILE) --locked -p veridical-cli
	rm -rf veridical.data $(DIST)
	mkdir -p $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
	    $(SHARE)/fish/vendor_completions.d
	$(PROGRAM) man --quiet --out $(SHARE)/man/man1 >/dev/null
	$(PROGRAM) completions bash > $(SHARE)/bash-completion/completions/veridical
	$(PROGRAM) completions zsh > $(SHARE)/zsh/site-functions/_veridical
	$(PROGRAM) completions fish > $(SHARE)/fish/vendor_completions.d/veridical.fish
	$(MATURIN) build --profile $(PROFILE) --locked --out $(DIST)
	rm -rf veridical.data

# The packaging, proved on a wheel of the dev profile: rust-test has compiled it already.
wheel-test:
	$(MAKE) wheel PROFILE=dev DIST=target/dist
	python3 python/wheel/check_wheel.py target/dist/*.whl

# Damaged input for as long as SECONDS says; another SEED gives other damage. The dev profile keeps
# checks of overflow.
SECONDS ?= 600
SEED ?= 0
fuzz:
	cargo run --locked -p veridical-fuzz -- --seconds $(SECONDS) --seed $(SEED) $(TARGETS)

# Tests that take minutes: 200 overlapping refreshes with kills.
soak:
	cargo nextest run -p veridical-cli --locked --run-ignored only --no-capture -E 'test(many_overlapping)'

# Rewrites tests/golden/ from the independent Python reference; read the diff before you commit it.
golden:
	python3 python/reference/make_golden.py

bench:
	cargo build --release --locked -p veridical-cli -p bench-features
	benches/run.sh features

bench-embed:
	cargo build --release --locked -p bench-embed
	benches/run.sh embed

bench-learn:
	cargo build --release --locked -p bench-learn
	benches/run.sh learn

bench-nets:
	cargo build --release --locked -p bench-nets
	benches/run.sh nets

bench-encoder:
	cargo build --release --locked -p bench-encoder
	benches/run.sh encoder

bench-refresh:
	cargo build --release --locked -p veridical-cli -p bench-refresh
	benches/run.sh refresh

bench-kernels:
	cargo build --release --locked -p bench-kernels -p bench-nets
	benches/run.sh kernels

$(RUFF):
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check ruff==0.17.4

$(VENV)/.installed: python/tests/requirements.txt $(RUFF)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r python/tests/requirements.txt
	touch $@

# The version that pyproject.toml asks for.
$(MATURIN): pyproject.toml
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check \
	    "$$(sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml)"
	touch $(MATURIN)
