# Everything a newcomer needs: `make demo` to see it, `make test` to check it, `make bench` to time it.

VENV := .venv
RUFF := $(VENV)/bin/ruff
NEXTEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo yes)

.PHONY: demo build test lint rust-test python-test golden bench

demo: build
	target/release/veridical demo --out demo --force

build:
	cargo build --release --locked -p veridical-cli

test: lint rust-test python-test

lint: $(RUFF)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	$(RUFF) check .
	$(RUFF) format --check .

rust-test:
ifeq ($(NEXTEST),yes)
	cargo nextest run --workspace --locked --no-fail-fast
else
	cargo test --workspace --locked --all-targets
endif
	cargo test --workspace --locked --doc

python-test: $(VENV)/.installed
	python3 python/reference/check_reference.py
	cargo build --locked -p veridical-cli
	$(VENV)/bin/python -m pytest -q python/tests

# Rewrites tests/golden/ from the independent Python reference; read the diff before you commit it.
golden:
	python3 python/reference/make_golden.py

bench:
	cargo build --release --locked -p veridical-cli -p bench-features
	benches/features/run.sh

$(RUFF):
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check ruff==0.17.4

$(VENV)/.installed: python/tests/requirements.txt $(RUFF)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@
