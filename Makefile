# `make demo` asks a real model a question over D-Bus; `make check` is for every change, `make test` runs all that this machine's
# build can show, `make test-packages` looks at what others install. All but `check` install what they need: Debian's packages (with
# sudo unless root), and Python's in target/venv.

SHELL       := /bin/bash
comma       := ,
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory

# This machine's architecture, in Debian's words; the cargo that makes release binaries, and where it puts them.
HOST     := $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)
CARGO    := cross/cargo.sh $(HOST)
RELEASE  := $(shell $(CARGO) folder)
export RELEASE
MODEL    := target/models/SmolLM2-135M-Instruct.Q4_1.gguf
# What `make demo` asks.
ASK      ?= In two sentences: why does a robot carry its own brain?
export ASK

# Tests mostly wait, and more of them at once than there are processors wait together.
export RUST_TEST_THREADS ?= $(shell echo $$((4 * $$(nproc))))

# What `make gpu` packs for a machine with a GPU; run.sh in it checks the CUDA backend there.
GPU      := target/gpu-pack
# The examples in it: what checks kernels and the graph, and what measures how programs are served.
CHECKS   := gpu-check callers guides restored

# Left to `make test`: what a real model computes, without much optimisation here, and what hostile users do for seconds each.
SLOW     := bus::window service::reload golden::smollm2 bus::hostile_wire bus::flood bus::leaks hostile::templates \
            graph::random every_pre_tokenizer check::this_machine check::every_eleventh

# For what driver `make` compiles kernels: this machine's own, or, if it is empty, that of JetPack 6.2, as for a package.
KERNELS  ?= own
# For what architectures `make` and `make test` compile them: without a GPU of NVIDIA's on a bus here for an Orin's alone, whose PTX others
# take, unless that says otherwise. CI tests what is packed, and a package has all.
BUILT    := $(if $(or $(CI),$(GANGLION_ARCHITECTURES),$(wildcard /proc/driver/nvidia)),,sm_87)
ifneq ($(BUILT),)
build demo test booted clients files: export GANGLION_ARCHITECTURES := $(BUILT)
endif
# What `make cross` builds and `make deb` packs for: arm64 or amd64.
ARCH     ?= arm64
# Where `make install` lays the tree; empty is this system.
DESTDIR  ?=

.PHONY: build install demo check test test-built test-roots test-here test-booted test-binaries test-packages booted clients files gpu cross deb reproduce deps deps-build deps-demo deps-test
# For this machine: its own CUDA toolkit compiles the kernels, if it has one. What `make deb` packs is for others, too.
build: deps-build
	@KERNELS=$(KERNELS) cross/build.sh $(HOST)
	@awk -f kernels/resources.awk "$$(ls -t $(RELEASE)/build/ganglion-*/out/resources.txt | head -n 1)"

# What `make` has built: it compiles nothing, as root may have no Rust.
install:
	@[ -x $(RELEASE)/gangliond ] || { echo 'nothing is built yet: run make first, as yourself' >&2; exit 1; }
	cross/install.sh $(RELEASE) $(DESTDIR)

demo: deps-demo build
	@tests/demo/run.sh $(MODEL)

# The service in booted Debian 11, 12 and 13; needs root.
booted: deps-build
	tests/systemd/run.sh

# Clients in many languages, with all that these need, and programs with a real model.
clients: deps-test build
	@tests/clients/run.sh

# How many of the templates, vocabularies, schemas and other files that users have are read as the references read them.
# `make test` has the same table without the vocabularies of npm packages.
files: deps-test build
	@cross/deps/packages.sh node=nodejs npm=npm
	@target/venv/bin/python tests/deps/vocabularies.py target/vocabularies
	@target/venv/bin/python tests/files/run.py $(RELEASE)

gpu: deps-test
	GANGLION_NVRTC=$$(cross/deps/nvrtc.sh own) cargo build --release --locked --bins $(CHECKS:%=--example %)
	tests/gpu/pack.sh $(or $(CARGO_TARGET_DIR),target)/release $(GPU) $(CHECKS)

cross: deps-build
	@cross/build.sh $(ARCH)

deb: deps-build
	@cross/deps/packages.sh dpkg-deb=dpkg
	@cross/deb.sh "$$(cross/build.sh $(ARCH))" $(ARCH) target/deb

# Slow: it compiles everything twice, for both architectures.
reproduce: deps-build
	cross/reproduce.sh

# What each of the others needs; quick when it is there.
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

# $(call stage,NAME,COMMAND): a heading, the command, and the seconds that it took.
define stage
@printf '\n==> %s\n' '$(1)'; $(2); printf '==> %s: %s s\n' '$(1)' "$$SECONDS"
endef

# For every change. It installs nothing: a test that needs what is not here says NOT RUN.
check:
	$(call stage,format,cargo fmt --check)
	$(call stage,lint,cargo clippy --all-targets -- -D warnings)
	$(call stage,tests,cargo test -- $(SLOW:%=--skip %))
	@printf '\n==> all checks passed, but for those that say NOT RUN, and: %s\n' '$(SLOW)'

# Where nothing is compiled yet, as in CI, what is compiled is linted beside that; elsewhere what is there already would not be.
ifeq ($(origin LINTED),undefined)
LINTED := $(if $(wildcard $(RELEASE)/deps),,RUSTC_WRAPPER=$(CURDIR)/tests/support/lint.sh)
export LINTED
endif
# What there is without CUDA is there with it too, and runs there: it is linted and built, in little time, and so are benches. What this
# machine computes is left to the package's self-test where `make test-packages` follows, as in CI: it is the same. The demo runs the
# binaries that are packed and booted.
test:
	$(call stage,dependencies,$(MAKE) deps)
	$(call stage,format,cargo fmt --check)
	$(if $(LINTED),,$(call stage,lint,$(CARGO) clippy --all-targets -- -D warnings))
	$(if $(LINTED),,$(call stage,lint without CUDA,$(CARGO) clippy --no-default-features --all-targets -- -D warnings))
	$(call stage,what is tested,tests/support/beside.sh target/roots.log 'chrt -i 0 $(MAKE) test-roots' '$(MAKE) test-built')
	$(call stage,all tests,$(MAKE) test-here)
	$(call stage,booted systems and binaries,tests/support/beside.sh target/booted.log '$(MAKE) test-booted' '$(MAKE) test-binaries')
	@printf '\n==> all checks passed\n'; if [ -e target/booted/not-run ]; then cat target/booted/not-run; fi

# What `make test` tests, what that is booted in, and three parts of it: booted systems mostly wait, so that binaries are checked beside
# them; tests do both, and have the machine for themselves.
test-built:
	LINT=tests $(LINTED) tests/support/programs.sh build $(CARGO)
test-roots:
	tests/systemd/run.sh roots || [ $$? = 77 ]
test-booted:
	$(call stage,booted systems,tests/systemd/run.sh || [ $$? = 77 ])
test-binaries:
	$(call stage,checks of binaries,cross/check-test.sh)
	$(call stage,what checks a GPU,$(LINTED) $(CARGO) zigbuild --example gpu-check)
	$(call stage,the build without CUDA,LINT=tests $(LINTED) $(CARGO) test --no-run --no-default-features --lib --bins --examples --config profile.release.package.ganglion.opt-level=0)
test-here:
	$(call stage,tests,tests/support/programs.sh run $(if $(CI),--skip this_machine_computes_as_it_should))
	$(call stage,files that users have,target/venv/bin/python tests/files/run.py $(RELEASE))
	$(call stage,demo,$(MAKE) demo KERNELS= ASK='Say hello.')
	$(call stage,README,tests/demo/run.sh $(MODEL) tests/demo/readme.sh)
	$(call stage,a build on a Jetson,tests/package/native.sh)

# What others install, of both architectures; arm64 runs under emulation here.
test-packages: deps-build
	$(call stage,the arm64 build,$(MAKE) cross ARCH=arm64)
	$(call stage,packages,tests/package/run.sh)
