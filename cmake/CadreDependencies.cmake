# Every library the project uses, found through pkg-config. msgpack-c's module has two names: `msgpack` on
# Debian 12, `msgpack-c` from Debian 13 on.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
pkg_search_module(msgpack REQUIRED IMPORTED_TARGET msgpack msgpack-c)
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
# The name that the loader knows OpenBLAS by, as programs that were linked with it would ask for it.
find_library(CADRE_OPENBLAS_FILE openblas HINTS ${openblas_LIBRARY_DIRS} REQUIRED)
execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${CADRE_OPENBLAS_FILE} OUTPUT_VARIABLE openblas_headers ERROR_QUIET)
string(REGEX MATCH "SONAME +([^ \n]+)" openblas_soname "${openblas_headers}")
set(CADRE_OPENBLAS "${CMAKE_MATCH_1}")
if(NOT CADRE_OPENBLAS)
    message(FATAL_ERROR "${CADRE_OPENBLAS_FILE} is no shared library with a name: install OpenBLAS's")
endif()
if(NOT CADRE_DEVICE_ONLY)
    pkg_check_modules(lmdb REQUIRED IMPORTED_TARGET lmdb)
    pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
    pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
    pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
    pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
endif()
set(CADRE_HTTP_LINK "")
set(CADRE_HTTP_LIBS "") # of cadre.pc
if(CADRE_HTTP AND NOT CADRE_DEVICE_ONLY)
    pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
    set(CADRE_HTTP_LINK PkgConfig::microhttpd)
    set(CADRE_HTTP_LIBS " -lmicrohttpd")
endif()
# Its SHA-1 where there is no xxHash; in tests its reader of certificates beside ours.
if(CADRE_TESTS OR CADRE_DEVICE_ONLY)
    pkg_check_modules(czmq REQUIRED IMPORTED_TARGET libczmq)
endif()
if(CADRE_TESTS AND NOT CADRE_DEVICE_ONLY)
    pkg_check_modules(criterion REQUIRED IMPORTED_TARGET criterion)
endif()

# Debian's libzmq.pc names the headers of everything libzmq was built with, one of them as a raw
# `-isystem` flag that FindPkgConfig reads differently from its cache: every second configure then had
# other command lines, and built everything again. Nothing of it is needed to use libzmq. libmicrohttpd's
# names those of GnuTLS the same way.
foreach(package zmq czmq microhttpd)
    if(NOT TARGET PkgConfig::${package})
        continue()
    endif()
    get_target_property(folders PkgConfig::${package} INTERFACE_INCLUDE_DIRECTORIES)
    if(folders)
        list(FILTER folders EXCLUDE REGEX "^/usr/include/")
        set_target_properties(PkgConfig::${package} PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${folders}")
    endif()
    set_target_properties(PkgConfig::${package} PROPERTIES INTERFACE_COMPILE_OPTIONS "")
endforeach()
