# make demo | test | lint | bench | bench-versus | mutants; each installs what it lacks (see .ci/needs), or says how.

# Optimised, and linked in a fraction of a release's time: demo and tests share what was built. `PROFILE=dev` for quick turns.
PROFILE ?= ci
CARGO ?= cargo
NEXTEST := $(shell command -v cargo-nextest)

.PHONY: demo test lint bench smoke bench-versus mutants needs

# The first incident, replayed: origins with caches, a gateway, load and a live table in one process.
demo: needs
	$(CARGO) run --locked --profile $(PROFILE) -- demo

# Unit, property, architecture and wire tests; some stand beside a real nginx.
test: needs
	@.ci/needs nginx
ifneq ($(NEXTEST),)
	$(CARGO) nextest run --locked --cargo-profile $(PROFILE) --profile $(if $(CI),ci,default)
else
	$(CARGO) test --locked --profile $(PROFILE)
endif

lint: needs
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets --features versus --profile $(PROFILE) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items --lib --profile $(PROFILE)
	for patch in tests/mutants/*.patch; do git apply --check "$$patch" || exit 1; done

# Figures for the hot paths, to stand in the commit that changes one.
bench: needs
	$(CARGO) bench --locked --bench '*'

# Every bench once round, so that none rots; no figures.
smoke: needs
	$(CARGO) bench --locked --profile $(PROFILE) --bench '*' -- --test

# CPU, memory and instructions of the shipped build beside nginx, HAProxy and stock Pingora, in one run of some ten
# minutes; `ARGS="small --rounds 3"` for less, `ARGS=--json` for a program.
bench-versus: needs
	@benches/versus/needs
	$(CARGO) build --locked --release --features versus --bin moorgate --bin stock --bin stock_mimalloc
	benches/versus/run --binaries $${CARGO_TARGET_DIR:-target}/release $(ARGS)

# Each promise broken in a line, and its test seen to turn red; `ONLY=p7` for a part. Compiles us once for every patch,
# so it takes the profile that is compiled the quickest.
mutants: PROFILE = dev
mutants: needs
	PROFILE=$(PROFILE) tests/mutants/run $(ONLY)

needs:
	@.ci/needs
