# SPDX-License-Identifier: Apache-2.0 OR MIT
CARGO  ?= cargo
PREFIX ?= /usr/local
SECONDS ?= 30
DESTDIR ?=
STRIP   ?= strip
TARGET := $(or $(CARGO_TARGET_DIR),target)
ALCC   := $(TARGET)/release/alcc
LAB    := $(TARGET)/release/alcc-lab
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# Older ones do not know the licence Unicode-3.0.
DENY_VERSION := 0.20.2
# Reads the rustdoc JSON of Rust 1.95.
SEMVER_VERSION := 0.51.0
# Those with a README of their own.
PUBLIC := $(foreach readme,$(wildcard alcc/*/README.md lab/*/README.md),$(if $(wildcard $(dir $(readme))Cargo.toml),alcc-$(notdir $(patsubst %/README.md,%,$(readme)))))
# Where scripts/setup put what this machine lacked.
WITH_DEPS = set -a; [ ! -f target/deps/env ] || . target/deps/env; set +a; PATH=$$PATH$${ALCC_DEPS_BIN:+:$$ALCC_DEPS_BIN}:$(CURDIR)/target/deps/bin:/usr/sbin:/sbin;

.DEFAULT_GOAL := help
.PHONY: alcc android help setup build demo picture test test-all check lint audit deny-tool semver semver-tool fuzz bench bpf beside-kernel truth compare native over-tcp programs doc dist install install-lab install-library install-static uninstall soak constants

help: ## Show these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

setup: ## Look for what is needed and get what is missing (never starts a service)
	@scripts/setup build test

alcc: ## Build the product alone: the program alcc, the preload library, the C library
	@scripts/setup build
	@$(WITH_DEPS) set -x; $(CARGO) build --release --locked -p alcc-cli -p alcc-preload -p alcc-capi $$ALCC_FEATURES
	scripts/libalcc $(TARGET)/release

build: ## Build the product and the laboratory: alcc, alcc-lab and their libraries
	@scripts/setup build
	@$(WITH_DEPS) set -x; $(CARGO) build --release --locked --workspace $$ALCC_FEATURES
	scripts/libalcc $(TARGET)/release

demo: build ## The main job: nginx under cubic, bbr, verus, copa and budget on an emulated LTE link (ARGS="--trace FILE")
	@$(WITH_DEPS) $(LAB) demo $(ARGS)

picture: build ## README's picture and table, measured again on a quiet machine, as root (some 3 minutes)
	@$(WITH_DEPS) set -e; $(ALCC) bpf load; trap '$(ALCC) bpf unload' EXIT; \
	$(LAB) compare --emu --traces synth:lte --schemes cubic,bbr,bbr/lowat=16384B,alcc_budget/lowat=16384B,budget/over=cubic,verus/over=cubic,copa/over=cubic --duration 30s --runs 5 --out $(TARGET)/picture; \
	cp $(TARGET)/picture/results.json docs/img/demo.json; \
	ALCC_BLESS=1 $(CARGO) test --release --locked -p alcc-lab $$ALCC_FEATURES --test pages the_readme_shows

test: ## Everything a pull request must pass
	@scripts/setup build test
	@$(WITH_DEPS) scripts/test all

test-all: ## The nightly set, an hour: 'make test', BPF under Debian's 6.1 and 6.12, the soak, every fuzz target for a minute
	@scripts/setup build test fuzz
	@$(WITH_DEPS) scripts/test nightly

check: ## For everyday work, some 3 minutes after a build: formatting, the tests of all crates, one way through each part of the program
	@scripts/setup build test
	@$(WITH_DEPS) scripts/test check

lint: ## Formatting, clippy, and what 'cargo deny' says of licences, doubles and sources
	@scripts/setup test
	@$(WITH_DEPS) scripts/test lint

audit: ## Known vulnerabilities of the dependencies (fetches the advisory database; needs 'make deny-tool')
	@$(WITH_DEPS) $(CARGO) deny --locked check advisories

deny-tool: ## Build 'cargo deny' into target/deps/bin (some minutes; needs crates.io)
	$(CARGO) install --locked --version $(DENY_VERSION) --root target/deps cargo-deny

semver-tool: ## Build 'cargo semver-checks' into target/deps/bin (some ten minutes; needs crates.io)
	$(CARGO) install --locked --version $(SEMVER_VERSION) --root target/deps cargo-semver-checks

semver: ## What has changed in the public crates since the last release (BASE=REVISION; needs 'make semver-tool')
	@base=$${BASE:-$$(git describe --tags --abbrev=0 2>/dev/null)}; \
	[ -n "$$base" ] || { echo "semver: there is no release to compare with: give BASE=REVISION" >&2; exit 2; }; \
	$(WITH_DEPS) $(CARGO) semver-checks $(PUBLIC:%=-p %) --baseline-rev "$$base"

doc: ## The API documentation, into target/doc
	@$(WITH_DEPS) set -x; RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps $$ALCC_FEATURES --features alcc-socket/tokio

fuzz: ## Fuzz every parser and the algorithms (SECONDS=30 each, TARGETS="units trace")
	@scripts/setup build fuzz
	@TARGETS="$(TARGETS)" SECONDS_EACH="$(SECONDS)" scripts/fuzz

bench: build ## Speed of the pure crates and the cost of the runtime (lab/notes/benchmarks.md)
	@$(WITH_DEPS) $(CARGO) bench --locked --workspace $$ALCC_FEATURES

truth: build ## The simulator beside published figures, and tuned beside original (lab/notes/truth.md; ALCC_TRACES=DIR)
	@$(LAB) compare --sim --traces "$${ALCC_TRACES:?set ALCC_TRACES to the folder of the recorded traces, see docs/traces.md}" --reference lab/notes/truth.csv
	@$(LAB) compare --sim --traces "$$ALCC_TRACES" --tuned verus,copa,sprout

compare: build ## Five recorded traces, every scheme, in the emulator (ALCC_TRACES=DIR, ARGS="--schemes cubic,verus/over=cubic --runs 1")
	@$(WITH_DEPS) $(LAB) compare --emu --traces "$${ALCC_TRACES:?set ALCC_TRACES to the folder of the recorded traces, see docs/traces.md}" $(ARGS)

native: build ## Algorithms above TCP beside their native forms, two recorded traces (ALCC_TRACES=DIR, ARGS="--full": five traces, three TCPs)
	@$(WITH_DEPS) scripts/native $(LAB) $(ARGS)

over-tcp: ## Every algorithm above Cubic, Reno and BBR beside its native form, simulated (lab/notes/over-tcp.md; ALCC_TRACES=DIR)
	@$(WITH_DEPS) ALCC_BLESS=1 $(CARGO) test --release --locked -p alcc-experiment --test over_tcp_table

constants: ## Write the constants of algorithms, after a change in Rust, for the BPF programs, Java and docs/budget.md
	ALCC_BLESS=1 $(CARGO) test --locked -p alcc-zoo --test constants
	scripts/bpf

bpf: ## Compile the BPF programs again, into alcc/bpf/objects (needs clang, llvm and libbpf-dev)
	scripts/bpf

beside-kernel: build ## Simulated Cubic and FQ-CoDel beside Linux 6.12 in qemu, some 5 minutes (lab/notes/beside-kernel.csv; ARGS="fq_codel-10-20")
	@scripts/setup test
	@$(WITH_DEPS) ALCC_LAB=$(LAB) scripts/beside-kernel $(ARGS)

soak: ## The long tests, some 10 minutes: torture, 10,000 connections, resets, every case many times, AddressSanitizer; the result goes to lab/notes/soak.md
	@scripts/setup build test
	@$(WITH_DEPS) scripts/soak

programs: build ## Delay of every program of docs/compatibility.md on a recorded channel, beside nginx (ALCC_TRACES=DIR, ARGS="vsftpd sshd")
	@scripts/setup test
	@: "$${ALCC_TRACES:?set ALCC_TRACES to the folder of the recorded traces, see docs/traces.md}"
	@$(WITH_DEPS) ALCC_BENCH_PROGRAMS=1 $(CARGO) bench --locked -p alcc-cli $$ALCC_FEATURES --bench programs -- $(ARGS)

dist: build ## Two .debs and a tarball, stripped, the same bytes from the same build (target/dist); checked by lintian and mandoc
	@scripts/setup build dist
	@$(WITH_DEPS) scripts/dist $(TARGET)/release $(TARGET)/dist && lintian --allow-root --fail-on error,warning $(TARGET)/dist/alcc_*.deb $(TARGET)/dist/alcc-lab_*.deb
	cargo package --locked --workspace --no-verify --allow-dirty --quiet

android: ## The Android app, a signed APK (target/android/alcc.apk), and its tests; fetches some 290 MB the first time
	@scripts/setup android
	@$(WITH_DEPS) scripts/android test

install: install-library ## What 'make build' built, below PREFIX (/usr/local); after 'make alcc' without alcc-lab, man pages and completions
	@[ -x $(ALCC) ] || { echo "make install: $(ALCC) is not there: run 'make build' first (not as root)" >&2; exit 2; }
	@# The build keeps what debuggers need, five sixths of the size. Never strip in place: a server may be loading it.
	$(STRIP) -o $(TARGET)/generated/alcc $(ALCC)
	$(STRIP) -o $(TARGET)/generated/libalcc_preload.so $(TARGET)/release/libalcc_preload.so
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(TARGET)/generated/alcc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/alcc $(TARGET)/generated/libalcc_preload.so
	for unit in alcc alcc-bpf; do \
	    sed 's|@BIN@|$(PREFIX)/bin|' packaging/$$unit.service > $(TARGET)/generated/$$unit.service && \
	    install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system $(TARGET)/generated/$$unit.service || exit 1; done
	@if [ -x $(LAB) ]; then $(MAKE) --no-print-directory install-lab; else echo "make install: without alcc-lab, man pages and completions: 'make build' makes them" >&2; fi

install-lab: # The laboratory, and what it writes for both programs
	$(LAB) generate --out $(TARGET)/generated
	$(STRIP) -o $(TARGET)/generated/alcc-lab $(LAB)
	$(STRIP) -o $(TARGET)/generated/libalcc_lab.so $(TARGET)/release/libalcc_lab.so
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(TARGET)/generated/alcc-lab
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/alcc $(TARGET)/generated/libalcc_lab.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(TARGET)/generated/*.1
	for name in alcc alcc-lab; do \
	    install -D -m 644 $(TARGET)/generated/$$name.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$name; done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(TARGET)/generated/_alcc $(TARGET)/generated/_alcc-lab
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d $(TARGET)/generated/alcc.fish $(TARGET)/generated/alcc-lab.fish

install-library: # The C library alone, with its headers and what pkg-config reads
	@[ -f $(TARGET)/release/libalcc.so.0 ] || { echo "make install: $(TARGET)/release/libalcc.so.0 is not there: run 'make build' first (not as root)" >&2; exit 2; }
	mkdir -p $(TARGET)/generated
	$(STRIP) -o $(TARGET)/generated/libalcc.so.0 $(TARGET)/release/libalcc.so.0
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(TARGET)/generated/libalcc.so.0
	ln -sf libalcc.so.0 $(DESTDIR)$(PREFIX)/lib/libalcc.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include alcc/capi/include/alcc.h
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' alcc/capi/alcc.pc.in > $(TARGET)/generated/alcc.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/pkgconfig $(TARGET)/generated/alcc.pc
	@# Programs find a new library by the linker's cache. A package does this for itself.
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then PATH=$$PATH:/usr/sbin:/sbin ldconfig || echo "make install: ldconfig failed: programs may not find libalcc.so.0" >&2; fi

install-static: ## The C library for static programs, too (18 MB, nearly as much as all the rest)
	mkdir -p $(TARGET)/generated
	$(STRIP) --strip-debug -o $(TARGET)/generated/libalcc.a $(TARGET)/release/libalcc.a
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(TARGET)/generated/libalcc.a

uninstall: ## Remove what 'make install' put below PREFIX
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,alcc alcc-lab) $(addprefix $(DESTDIR)$(PREFIX)/lib/alcc/,libalcc_preload.so libalcc_lab.so)
	rm -f $(DESTDIR)$(PREFIX)/lib/libalcc.so $(DESTDIR)$(PREFIX)/lib/libalcc.so.0 $(DESTDIR)$(PREFIX)/lib/libalcc.a
	rm -f $(DESTDIR)$(PREFIX)/include/alcc.h $(DESTDIR)$(PREFIX)/lib/pkgconfig/alcc.pc
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/alcc.1 $(DESTDIR)$(PREFIX)/share/man/man1/alcc-*.1
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/bash-completion/completions/,alcc alcc-lab) $(addprefix $(DESTDIR)$(PREFIX)/lib/systemd/system/,alcc.service alcc-bpf.service)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/zsh/site-functions/,_alcc _alcc-lab) $(addprefix $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/,alcc.fish alcc-lab.fish)
