# Every library the project uses, found through pkg-config. msgpack-c's module has two names: `msgpack` on
# Debian 12, `msgpack-c` from Debian 13 on.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(czmq REQUIRED IMPORTED_TARGET libczmq)
pkg_search_module(msgpack REQUIRED IMPORTED_TARGET msgpack msgpack-c)
pkg_check_modules(lmdb REQUIRED IMPORTED_TARGET lmdb)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
if(CADRE_TESTS)
    pkg_check_modules(criterion REQUIRED IMPORTED_TARGET criterion)
endif()
