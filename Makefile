# make demo | test | lint | bench; each installs what it lacks (see .ci/needs), or says how.

# Optimised, and linked in a fraction of a release's time: demo and tests share what was built. `PROFILE=dev` for quick turns.
PROFILE ?= ci
CARGO ?= cargo
NEXTEST := $(shell command -v cargo-nextest)

.PHONY: demo test lint bench smoke needs

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
	$(CARGO) clippy --locked --all-targets --profile $(PROFILE) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items --lib --profile $(PROFILE)

# Figures for the hot paths, to stand in the commit that changes one.
bench: needs
	$(CARGO) bench --locked --bench '*'

# Every bench once round, so that none rots; no figures.
smoke: needs
	$(CARGO) bench --locked --profile $(PROFILE) --bench '*' -- --test

needs:
	@.ci/needs
