# make                       builds for this machine; `sudo make install` installs the result
# make demo                  asks a real model a question over D-Bus
# make check                 before each commit: format, lints and the quick tests
# make lint test booted packages   everything that a change must pass, as .ci/run does
# make soak                  slow checks of what seldom changes
#
# All targets but `check` and `install` install what they need: Debian's packages (with sudo unless you are root), and Python's in
# target/venv. CONTRIBUTING.md lists the other targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory

# This machine's architecture, as Debian names it; the cargo for release binaries, and its output folder.
HOST     := $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)
CARGO    := cross/cargo.sh $(HOST)
RELEASE  := $(shell $(CARGO) folder)
export RELEASE
MODEL    := target/models/SmolLM2-135M-Instruct.Q4_1.gguf
# The question of `make demo`.
ASK      ?= In two sentences: why does a robot carry its own brain?
export ASK

# Most tests wait for a daemon, so more of them run at once than there are processors.
export RUST_TEST_THREADS ?= $(shell echo $$((4 * $$(nproc))))

# The pack that checks the CUDA backend on a machine with a GPU, and the examples in it.
GPU      := target/gpu-pack
CHECKS   := gpu-check callers guesses guides restored

# The tests that `make check` leaves to `make test`: a real model, attacks, and those that are slow in the dev profile.
SLOW     := bus::window service::reload golden::smollm2 bus::hostile_ bus::flood bus::leaks http::leaks hostile::templates \
            graph::random graph::faults every_pre_tokenizer check::every_eleventh check::equals check::the_reference \
            check::a_quant guided::suite guided::hostile guided::answers_fit http::chat::answers http::clients golden::a_row lasting:: \
            tools::hot_ text::reference::added together::alone::answers_of_a_recurrent

# The tests that `make test` leaves to `make soak`: `make packages` runs the same self-test, and the model has 253 MB.
SOAK     := check::this_machine_computes_as_it_should golden::gemma_3_270m
UNLOADS  := together::unloads::repeated_unloads_change_no_answer
SOAKED   := target/models/gemma-3-270m-q4_k_m.gguf

# own: `make` compiles the kernels for this machine's GPU and driver; empty: as for a package.
KERNELS  ?= own

# The architecture of `make cross` and `make deb`: arm64 or amd64.
ARCH     ?= arm64
# The folder that `make install` writes to; empty for this system.
DESTDIR  ?=

.PHONY: build install demo check lint test booted packages soak clients files gpu projections cross deb reproduce deps deps-build deps-demo deps-test
build: deps-build
	@KERNELS=$(KERNELS) cross/build.sh $(HOST)

# Installs what `make` has built. It compiles nothing, as root may have no Rust.
install:
	@[ -x $(RELEASE)/gangliond ] || { echo 'nothing is built yet: run make first, as yourself' >&2; exit 1; }
	cross/install.sh $(RELEASE) $(DESTDIR)

demo: deps-demo build
	@tests/demo/run.sh $(MODEL)

# $(call stage,NAME,COMMAND): prints a heading, runs the command, and prints its seconds.
define stage
@printf '\n==> %s\n' '$(1)'; $(2); printf '==> %s: %s s\n' '$(1)' "$$SECONDS"
endef

# The kernels' format is kernels/.clang-format.
KERNEL_FORMAT := target/venv/bin/clang-format --dry-run --Werror kernels/*.h kernels/*.cu* kernels/*/*.cu*

# It installs nothing: a test whose tools are missing prints SKIPPED.
check:
	$(call stage,format,cargo fmt --check)
	$(call stage,kernel format,[ -x target/venv/bin/clang-format ] || { echo 'SKIPPED: no clang-format in target/venv' && exit; }; $(KERNEL_FORMAT))
	$(call stage,lint,cargo clippy --all-targets -- -D warnings)
	$(call stage,tests,cargo test --tests -- $(SLOW:%=--skip %) $(SOAK:%=--skip %))
	@printf '\n==> all checks passed, except tests that print SKIPPED and: %s\n' '$(SLOW) $(SOAK)'

# lint, test, booted and packages share the release profile and its folder, so that dependencies compile once. clippy checks the
# examples, and only `booted` builds one.
lint: deps-test
	$(call stage,format,cargo fmt --check)
	$(call stage,kernel format,$(KERNEL_FORMAT))
	$(call stage,clippy,$(CARGO) clippy --all-targets -- -D warnings)
	$(call stage,clippy without CUDA,$(CARGO) clippy --no-default-features --all-targets -- -D warnings)

# Tests the release binaries of this machine, with a real model and the examples of the README.
test: deps-test
	$(call stage,tests,$(CARGO) test --tests -- $(SOAK:%=--skip %))
	$(call stage,files of real users,target/venv/bin/python tests/files/run.py $(RELEASE))
	$(call stage,demo,ASK='Say hello.' tests/demo/run.sh $(MODEL))
	$(call stage,README,CHAT_TEMPLATE=tests/clients/tools.jinja tests/demo/run.sh $(MODEL) tests/demo/readme.sh)
	$(call stage,a build on a Jetson,tests/package/native.sh)
	$(call stage,the check of binaries,cross/check-test.sh)

# Runs the service in booted Debian 11, 12 and 13; needs root.
booted: deps-build
	$(call stage,booted systems,tests/systemd/run.sh || [ $$? = 77 ])

# Checks both packages from install to purge; arm64 runs under emulation.
packages: deps-build
	$(call stage,the arm64 build,$(MAKE) cross ARCH=arm64)
	$(call stage,packages,tests/package/run.sh)

# Run it before an issue is closed and before a release.
soak: deps-test
	@target/venv/bin/python tests/deps/model.py $(SOAKED)
	$(call stage,slow tests,$(CARGO) test --tests -- $(SOAK))
	$(call stage,a thousand unloads,GANGLION_UNLOADS=1000 $(CARGO) test --tests -- --exact $(UNLOADS))
	$(call stage,slow scenarios,tests/systemd/run.sh hostile || [ $$? = 77 ])
	$(call stage,attacks on memory and time,tests/systemd/attacks.sh exhaust || [ $$? = 77 ])
	$(call stage,clients,$(MAKE) clients KERNELS=)
	$(call stage,files,$(MAKE) files KERNELS=)

# Ten clients in six languages, each with its own D-Bus library, eleven of OpenAI's and Anthropic's APIs, and a robot's programs
# with a real model, some of them in containers.
clients: deps-test build
	@KERNELS=$(KERNELS) $(CARGO) zigbuild --example systemd-check
	@tests/clients/run.sh

# Compares with the references: templates, vocabularies, schemas and other files of real users, as a table. `make test` leaves
# out the vocabularies of npm packages.
files: deps-test build
	@cross/deps/packages.sh node=nodejs npm=npm
	@target/venv/bin/python tests/deps/vocabularies.py target/vocabularies
	@target/venv/bin/python tests/files/run.py $(RELEASE)

# The pack, and a table of each kernel's registers and memory.
gpu: export GANGLION_ARCHITECTURES := sm_87 sm_90
gpu: deps-test
	GANGLION_NVRTC=$$(cross/deps/nvrtc.sh own) cargo build --release --locked --bins $(CHECKS:%=--example %)
	@awk -f kernels/resources.awk "$$(ls -t $(or $(CARGO_TARGET_DIR),target)/release/build/ganglion-*/out/resources.txt | head -n 1)"
	tests/gpu/pack.sh $(or $(CARGO_TARGET_DIR),target)/release $(GPU) $(CHECKS)

# Writes the projections into the README's table of speeds. A test says when they differ.
projections:
	GANGLION_WRITE_README=1 cargo test --no-default-features --lib projection::readme

cross: deps-build
	@cross/build.sh $(ARCH)

deb: deps-build
	@cross/deps/packages.sh dpkg-deb=dpkg
	@cross/deb.sh "$$(cross/build.sh $(ARCH))" $(ARCH) target/deb

# Builds both packages twice, in two folders, and compares their bytes. Slow.
reproduce: deps-build
	cross/reproduce.sh

# The needs of the other targets. Quick if everything is installed.
deps: deps-test
deps-build:
	@cross/deps/packages.sh cc=build-essential
	@cross/deps/rust.sh
	@cross/deps/nvrtc.sh own >/dev/null
deps-demo: deps-build
	@cross/deps/packages.sh dbus-daemon=dbus
	@cross/deps/python.sh
	@target/venv/bin/python tests/deps/model.py $(MODEL)
deps-test: deps-demo
	@cross/deps/rust.sh fmt clippy
	@cross/deps/packages.sh busctl=systemd gdbus=libglib2.0-bin groff=groff-base pkg-config libsystemd-dev
	@cross/deps/python.sh tests/deps/requirements.txt
	@target/venv/bin/python tests/deps/schemas.py target/schemas/draft2020-12
	@target/venv/bin/python tests/deps/templates.py target/templates
	@target/venv/bin/python tests/deps/parsers.py target/parsers
