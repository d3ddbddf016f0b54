# The front door. Every target does all of its set-up on a Debian 12 (packages, configure, build)
# and is quick when nothing changed. `make help` lists the targets.

.PHONY: help build train check check-all analyze fuzz install clean

help:
	@echo 'make train        install what is missing, build, train the shipped example'
	@echo 'make check        install what the tests need, build, run all tests (see tests/README.md)'
	@echo 'make check-all    all tests in full, then again with AddressSanitizer and ThreadSanitizer'
	@echo 'make analyze      the static analyzer over all sources, some minutes; continuous integration runs it too'
	@echo 'make fuzz         libFuzzer on every target, 60 s each; SECONDS= sets how long'
	@echo 'make build        build the programs into build/release/bin'
	@echo 'make install      build and install; PREFIX=/usr/local, DESTDIR='
	@echo 'make clean        remove build/'

PREFIX ?= /usr/local

build:
	@deploy/setup-debian.sh
	@mkdir -p build
	@home=$$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' build/release/CMakeCache.txt 2>/dev/null); \
	[ -z "$$home" ] || [ "$$home" -ef . ] || { \
		echo "build/ was made in $$home, and CMake keeps that path: 'make clean', then this again"; exit 1; }
	@cmake --preset release -DCADRE_TESTS=OFF >build/configure.log || { cat build/configure.log; exit 1; }
	@cmake --build --preset release

train: build
	build/release/bin/cadre run examples/digits.json

check:
	@deploy/setup-debian.sh --tests
	@tests/check.sh release

check-all:
	@deploy/setup-debian.sh --tests
	@tests/check.sh release asan tsan

analyze:
	@deploy/setup-debian.sh --tests
	@mkdir -p build
	@cmake --preset release -DCADRE_TESTS=ON >build/configure.log || { cat build/configure.log; exit 1; }
	@tests/gates/clang_tidy.py --analyzer build/release

SECONDS ?= 60

fuzz:
	@deploy/setup-debian.sh --fuzz
	@tests/fuzz/run $(SECONDS)

install: build
	cmake --install build/release --prefix '$(PREFIX)'

clean:
	rm -rf build
