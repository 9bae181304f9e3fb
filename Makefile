# A short front for meson. `make` only builds; `make run` and `make test` also
# install what is missing (apt, as root or with sudo).
PREFIX ?= /usr/local
DESTDIR ?=
TESTS ?=

.PHONY: all run test unit asan integration attacks environments soak fuzz analyze bench languages images arm64 \
	test-arm64 install clean format

comma := ,

# Meson has much to say, of which only a failure is of interest.
setup = echo "configuring $(firstword $(1))"; out=$$(meson setup $(1) 2>&1) || { \
	echo "$$out"; rm -rf $(firstword $(1)); exit 1; }

all: build/build.ninja
	@ninja -C build --quiet

build/build.ninja:
	@$(call setup,build --cross-file tools/musl.ini --prefix $(PREFIX))

run:
	@tools/setup build
	@$(MAKE) --no-print-directory all
	build/cay run -c 'import sys; print("hello from an island, python", sys.version.split()[0])'

build-test/build.ninja:
	@$(call setup,build-test -Dtests=true)

build-bench/build.ninja:
	@$(call setup,build-bench --cross-file tools/musl.ini -Dbench=true)

build-asan/build.ninja:
	@$(call setup,build-asan -Dtests=true -Db_sanitize=address$(comma)undefined -Db_lundef=false \
		--buildtype debugoptimized)

unit: build-test/build.ninja
	@ninja -C build-test --quiet
	@meson test -C build-test --no-rebuild --print-errorlogs --num-processes 2

integration: all build-test/build.ninja
	@ninja -C build-test --quiet tests/fault tests/resident tests/api_server tests/lay_wires tests/plain_warm.so \
		tests/engine_calls
	@CAY_BIN=$(CURDIR)/build/cay /usr/bin/python3 tests/steady.py \
		tests/house tests/integration tests/conformance tests/api tests/serve tests/programs tests/egress tests/images \
		tests/escape tests/faults tests/places tests/containers tests/vm tests/warm tests/context tests/sdk $(TESTS)

# The attacks alone, with a line about each; writes README's table of them.
attacks: all
	@tools/setup test
	@CAY_BIN=$(CURDIR)/build/cay /usr/bin/python3 -m pytest -q -p no:cacheprovider \
		tests/escape --write-table $(TESTS)

# The same again under the sanitizers; programs on the islands run without. SANITIZED: what of it.
SANITIZED ?= tests/integration tests/api
asan: build-asan/build.ninja
	@ninja -C build-asan --quiet
	@meson test -C build-asan --no-rebuild --print-errorlogs --num-processes 2
	@CAY_BIN=$(CURDIR)/build-asan/cay CAY_API_SERVER=$(CURDIR)/build-asan/tests/api_server \
		CAY_SANITIZED=1 /usr/bin/python3 tests/steady.py \
		$(SANITIZED) $(TESTS)

test:
	@tools/setup test
	@$(MAKE) --no-print-directory unit integration

build-fuzz/build.ninja:
	@export CC=clang; $(call setup,build-fuzz -Dfuzz=true -Db_sanitize=address$(comma)undefined -Db_lundef=false \
		--buildtype debugoptimized)

# Each fuzzer for FUZZ_SECONDS; FUZZ='glob text' runs only these.
fuzz:
	@tools/setup fuzz
	@$(MAKE) --no-print-directory build-fuzz/build.ninja
	@ninja -C build-fuzz --quiet fuzzers
	@tools/fuzz $(FUZZ)

# What sanitizers and tests don't see; tools/analyze says by what.
analyze:
	@tools/setup analyze
	@$(MAKE) --no-print-directory build-test/build.ninja
	@ninja -C build-test --quiet
	@tools/analyze

bench:
	@tools/setup bench
	@$(MAKE) --no-print-directory all build-bench/build.ninja
	@ninja -C build-bench --quiet
	@/usr/bin/python3 tests/bench/bench.py

# Writes docs/languages.md: each language is run, on an island and without one.
languages: all
	@tools/setup test
	@/usr/bin/python3 tests/bench/languages.py

# Images that are made here, of Debian's packages, and put into the store.
images: all
	@tools/setup images
	@mkdir -p build/images
	images/agent/build build/images/agent.tar
	build/cay image import agent build/images/agent.tar

# Writes docs/environments.md: what comes of cay in each place. Tests that find it otherwise than it
# was recorded fail here, which is the point: what they found is recorded.
environments: all
	@tools/setup test
	-@CAY_BIN=$(CURDIR)/build/cay /usr/bin/python3 -m pytest -q -p no:cacheprovider \
		tests/places/test_environments.py tests/vm -k 'environments or places or systemd'
	@/usr/bin/python3 tests/places/environments.py

# Races at 10,000 rounds instead of 100, every fault with every error, thousands of crashes, and
# all of the escape suite on the other kernel: hours.
soak:
	@tools/setup test
	@CAY_SOAK=1 $(MAKE) --no-print-directory integration
	@$(MAKE) --no-print-directory asan SANITIZED=tests/serve

build-arm64/build.ninja:
	@tools/sysroot-arm64 build-arm64-root
	@$(call setup,build-arm64 --cross-file build-arm64-root/cross.ini --prefix $(PREFIX))

arm64: build-arm64/build.ninja
	@ninja -C build-arm64 --quiet

# Debian's arm64 kernel, emulated: a quarter of an hour. What is left out, tests/vm/test_vm.py says why.
test-arm64:
	@tools/setup arm64
	@$(MAKE) --no-print-directory arm64
	@tests/vm/run --arm64 --timeout 3600 -- python3 -B -m pytest -q -p no:cacheprovider --durations=10 \
		tests/vm/inside/cgroup2.py tests/places/test_delegated.py tests/places/test_container.py \
		tests/escape -k 'not (exhaustion and (mappings or watches))' $(TESTS)

install: all
	@meson configure build -Dprefix=$(PREFIX) && ninja -C build --quiet
	@DESTDIR=$(DESTDIR) meson install -C build --no-rebuild

format:
	clang-format -i $$(git ls-files 'src/*.c' 'src/*.h' 'tests/*.c')

clean:
	rm -rf build build-test build-asan build-bench build-fuzz build-analyze build-arm64 build-arm64-root
