# make demo | test | soak-upgrades | soak-websockets | lint | bench | bench-scale | bench-compare | bench-incidents | sim | mutants | image-test | book | documents; each installs what it lacks, or says how.

# Optimised, and linked in a fraction of a release's time: demo and tests share what was built. `PROFILE=dev` for quick turns.
PROFILE ?= ci
CARGO ?= cargo
NEXTEST := $(shell command -v cargo-nextest)
# A wire test waits for most of its time: half as many again as there are cores run at once.
TESTS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores + (cores + 1) / 2)))

.PHONY: demo test soak-upgrades soak-websockets lint bench smoke bench-scale bench-compare bench-incidents sim mutants image-test book documents needs

# The first incident, replayed: origins with caches, a gateway, load and a live table in one process.
demo: needs
	$(CARGO) run --locked --profile $(PROFILE) -- demo

# Unit, property, architecture and wire tests; some stand beside a real nginx, behind a real HAProxy, ask a real DNS server or a real Redis, or are asked by a real Prometheus or looked at in a real Chromium.
test: needs
	@.ci/needs nginx dnsmasq haproxy redis chromium curl nghttp2 websockets grpc promtool jq openssl
ifneq ($(NEXTEST),)
	$(CARGO) nextest run --locked --cargo-profile $(PROFILE) --profile $(if $(CI),ci,default) --test-threads $(TESTS)
else
	$(CARGO) test --locked --profile $(PROFILE) -- --test-threads $(TESTS)
endif

# Twenty upgrades under everything clients do, twenty drains behind HAProxy, and the next process stopped at every message:
# what the tests do a few times, in some ten minutes. `ROUNDS=5` for less.
ROUNDS ?= 20
soak-upgrades: needs
	@.ci/needs haproxy
	MOORGATE_ROUNDS=$(ROUNDS) $(CARGO) test --locked --profile $(PROFILE) --test it -- --nocapture --test-threads 1 \
		u2_b63 b63_ p8_whoever u2_the_next_process_may_hang

# Ten thousand WebSockets begun and ended under load, by a library's clients and by our own, which the tests do with a tenth.
soak-websockets: needs
	@.ci/needs websockets
	MOORGATE_ROUNDS=10 $(CARGO) test --locked --profile $(PROFILE) --test it -- --nocapture --test-threads 1 \
		no_upgrade_of_many p946_no_tunnel requests_at_random

lint: needs
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets --features versus --profile $(PROFILE) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items --lib --profile $(PROFILE)
	for patch in tests/mutants/*.patch; do git apply --check "$$patch" || exit 1; done

# Figures for the hot paths, to stand in the commit that changes one; `ONLY=pick` for a part.
bench: needs
	$(CARGO) bench --locked --bench hot $(if $(ONLY),-- '$(ONLY)')

# Every bench once round, so that none rots, and what the comparison stands on: peers' configurations, duties, a second of load.
# No figures.
smoke: needs
	@benches/versus/needs nginx:nginx-light python3:python3 openssl:openssl
	$(CARGO) bench --locked --profile $(PROFILE) --bench hot -- --test
	$(CARGO) build --locked --profile $(PROFILE) --bin moorgate
	benches/versus/check --binary $(PLACE)/moorgate

# What the shipped build costs beside nginx, HAProxy, Envoy, Caddy and stock Pingora with the same duties, in one run of some
# twenty minutes that wants the machine for itself: tables and a chart go to benches/results, the README and
# docs/performance.md. `ARGS="small tls --rounds 3"` for less, `ARGS=--help` for the jobs. Builds as a release does, which takes a while.
COMPARED = $${CARGO_TARGET_DIR:-target}
bench-compare: needs
	@benches/versus/needs
	$(CARGO) build --locked --release --features versus --bin moorgate --bin stock --bin stock_mimalloc
	benches/versus/run --binaries $(COMPARED)/release --envoy "$$(benches/versus/envoy $(COMPARED)/versus)" \
		--results benches/results --readme README.md --page docs/performance.md $(ARGS)

# The three incidents beside an nginx that does what the operators did, in some six minutes: tables and charts go to
# benches/results and into the README. `ARGS=2` for one of them.
PLACE = $${CARGO_TARGET_DIR:-target}/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
bench-incidents: needs
	@benches/versus/needs nginx:nginx-light python3:python3
	$(CARGO) build --locked --profile $(PROFILE) --bin moorgate
	benches/incidents/run --binary $(PLACE)/moorgate --readme README.md $(ARGS)

# Cost against size, in some twenty minutes: origins of a pool, routes, connections, reloads. Tables and curves go to
# benches/results and docs/performance.md; `ARGS="hosts --most 1000"` for a part.
bench-scale: needs
	@benches/versus/needs nginx:nginx-light python3:python3 valgrind:valgrind
	$(CARGO) build --locked --profile $(PROFILE) --bin moorgate
	benches/scale/run --binary $(PLACE)/moorgate --results benches/results --page docs/performance.md $(ARGS)

# What the rules about health do for pools in trouble: the real ring, pick and state machine on a clock of their own.
sim: needs
	$(CARGO) bench --locked --profile $(PROFILE) --bench sim

# Each promise broken in a line, and its test seen to turn red; `ONLY=p7` for a part. Compiles us once for every patch,
# so it takes the profile that is compiled the quickest.
mutants: PROFILE = dev
mutants: needs
	PROFILE=$(PROFILE) tests/mutants/run $(ONLY)

# The image, built and run: starts, reloads, crashes, drains. Linux, as root; what it lacks is installed on Debian.
image-test: needs
	@.ci/needs haproxy compose promtool
	docker/check --install
	$(CARGO) build --locked --profile $(PROFILE) --bin moorgate
	docker/image-test --binary $(PLACE)/moorgate

# docs/ as a book, in target/book, with what its pages lead to beside it; `mdbook serve docs` shows it while it is written.
BOOK = $${CARGO_TARGET_DIR:-target}/book
book:
	@command -v mdbook >/dev/null || { echo "missing: mdbook; $(CARGO) install --locked mdbook" >&2; exit 1; }
	mdbook build docs --dest-dir "$$(mkdir -p $(BOOK) && cd $(BOOK) && pwd)/docs"
	cp -r --parents README.md CONTRIBUTING.md conf docker benches/results benches/versus/peers $(BOOK)/

# The pages that say what the code says, written anew: reference of the configuration, of metrics, of commands. Tests hold
# them to it.
documents: PROFILE = dev
documents: needs
	MOORGATE_WRITE_DOCUMENTS=1 $(CARGO) test --locked --profile $(PROFILE) --lib says_what_the_code_says
	MOORGATE_WRITE_DOCUMENTS=1 $(CARGO) test --locked --profile $(PROFILE) --test docs page_of_errors

needs:
	@.ci/needs
