# Everything around the code. `make` alone lists what there is.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
# Seconds that `make fuzz` gives to each target.
FUZZ_SECONDS ?= 60
# Options of scripts/bench-serve.sh, for example --quick.
BENCH_OPTIONS ?=
# --table has `make test-images` write the table of docs/IMAGES.md anew.
IMAGES_OPTIONS ?=
# --pictures has `make test-page` write docs/pictures anew.
PAGE_OPTIONS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 28

build: ## Build the programs: target/release/pagewell, and pagewell-bench beside it
	$(CARGO) build --release -p pagewell -p pagewell-bench

demo: ## Serve a directory, an image and a RAM file system, and use them with a real client
	@scripts/packages.sh demo
	@scripts/demo.sh

test: ## Everything that must pass: style, lints, unit tests, documentation, real clients
	@scripts/test.sh

check: ## Formatting, clippy and unit tests: a few minutes after a build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test -q --workspace --lib --bins

lint: ## Formatting and clippy, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p pagewell-cache --all-targets --features loom -- -D warnings

build-tests: ## Build what the tests need
	$(CARGO) test --workspace --no-run
	$(CARGO) test -p pagewell-cache --lib --features loom --no-run

test-rust: ## Unit, property and wire tests
	$(CARGO) test --workspace
	$(CARGO) test -p pagewell-cache --lib --features loom

docs: ## The documentation of the code, warnings denied
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --workspace --no-deps --document-private-items

test-clients: ## Real clients: libnfs and a Linux kernel in an emulated machine
	@scripts/packages.sh test
	@tests/clients/run.sh

test-strangers: ## Other people's servers and clients, against docs/INTEROPERABILITY.md
	@scripts/packages.sh test
	@tests/strangers/run.sh

test-objects: ## Other people's object stores and web servers, and programs on their buckets
	@tests/objects/run.sh
	@scripts/packages.sh test
	@tests/objects/programs.sh
	@for ack in store journal; do \
		tests/objects/gateways.sh --rounds 10 --ack $$ack || [ $$? = 77 ] || exit 1; \
	done

test-images: ## Images by writers of others, entry by entry beside bsdtar, 7z, xorriso and Linux (5 minutes, root)
	@scripts/packages.sh images
	@tests/images/run.sh $(IMAGES_OPTIONS)

package: ## Debian packages, RPMs and a static program in target/package (needs a C compiler and a network)
	@scripts/package.sh

package-check: ## Make the packages again elsewhere, and compare the bytes (as long as `make package`)
	@scripts/package-check.sh

test-package: ## Install, use, upgrade and remove the packages in booted Debian systems (5 minutes)
	@scripts/packages.sh package
	@tests/package/run.sh
	@tests/package/container.sh

test-page: ## The live page and a report of bench in headless Chromium, and what Prometheus and Grafana are given (a minute)
	@scripts/packages.sh page
	$(CARGO) build -p pagewell
	@tests/page/run.sh $(PAGE_OPTIONS)

lint-dependencies: ## Licences, bans and sources of all dependencies (needs cargo-deny)
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny@0.20.2
	$(CARGO) deny check licenses bans sources

publish-check: ## Make the crates as for a registry, in their order, and upload nothing (needs the index)
	$(CARGO) publish --workspace --dry-run --no-verify

fuzz: ## Feed random input to every decoder for FUZZ_SECONDS each
	@scripts/fuzz.sh $(FUZZ_SECONDS)

bench-serve: ## Measure against nfs-ganesha, unfs3 and the limit of the machine, side by side
	@scripts/packages.sh bench
	@scripts/bench-serve.sh $(BENCH_OPTIONS)

bench-read: ## Measure cold reads against fio, dd, bsdtar and 7z, side by side
	@scripts/packages.sh bench
	@scripts/bench-read.sh $(BENCH_OPTIONS)

bench-client: ## Measure the NFS client, and fio on a FUSE mount of an NFS export
	@scripts/packages.sh bench
	@scripts/bench-client.sh $(BENCH_OPTIONS)

bench-mount: ## Measure mounts beside fuseiso and nfs-cat
	@scripts/packages.sh bench
	@scripts/bench-mount.sh $(BENCH_OPTIONS)

bench-copy: ## Measure copying many small files beside bsdtar, xorriso and cp on a kernel mount
	@scripts/packages.sh bench
	@scripts/bench-copy.sh $(BENCH_OPTIONS)

bench-images: ## Measure images with many files beside bsdtar, 7z, xorriso, fuseiso, and UDF beside Linux (root)
	@scripts/packages.sh bench images
	@scripts/bench-images.sh $(BENCH_OPTIONS)

bench-object: build ## Measure mounts of a bucket beside rclone, s3fs and mountpoint-s3 (Go, root)
	@cargo build --release -q -p pagewell-object-proxy
	@for name in mountpoint-s3 s3fs versitygw rclone; do tests/objects/servers.sh install $$name; done
	@scripts/bench-object.py $(BENCH_OPTIONS)

bench-idle: build ## Measure what a server costs that has nothing to do (2 minutes)
	@scripts/bench-idle.py

readme: ## Write the tables of README.md from docs/results
	PAGEWELL_WRITE_README=1 $(CARGO) test -q -p pagewell --test tidy the_readme_shows

install: build ## Install the program (stripped), its manual pages and completions below PREFIX
	@scripts/install.sh '$(DESTDIR)$(PREFIX)'

uninstall: ## Remove what `make install` put below PREFIX
	@scripts/install.sh --remove '$(DESTDIR)$(PREFIX)'

man: build ## The manual pages, in target/man/man1 and man7
	$${CARGO_TARGET_DIR:-target}/release/pagewell man $${CARGO_TARGET_DIR:-target}/man/man1
	$${CARGO_TARGET_DIR:-target}/release/pagewell-bench man $${CARGO_TARGET_DIR:-target}/man/man1

clean: ## Remove everything that was built
	$(CARGO) clean

.PHONY: help build demo package package-check test-package test check publish-check lint build-tests test-rust docs test-clients test-strangers test-objects test-images \
	test-page lint-dependencies fuzz bench-serve bench-read bench-client bench-mount bench-copy bench-images bench-object bench-idle \
	readme install uninstall man clean
