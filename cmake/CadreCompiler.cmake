# Language level, warnings, hardening and sanitizers, the same for every target.
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

# Options of C only: nvcc knows few of them.
function(cadre_c_options)
    foreach(option IN LISTS ARGN)
        add_compile_options("$<$<COMPILE_LANGUAGE:C>:${option}>")
    endforeach()
endfunction()

add_compile_definitions("$<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE>")
cadre_c_options(-fno-common)
if(CADRE_SANITIZE)
    cadre_c_options(-g1) # lines are what a report names
else()
    cadre_c_options(-g)
endif()

set(CADRE_WARNINGS
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wvla
    -Werror)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # Texts are cut at their buffer's size on purpose; gcc sees that only at -O2, and only sometimes.
    list(APPEND CADRE_WARNINGS -Wno-format-truncation)
elseif(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    # A loop that is not vectorised, as in a build with sanitizers, is slow and right.
    list(APPEND CADRE_WARNINGS -Wno-pass-failed)
endif()

# Asserts stay on in every build: cadre_assert does not look at NDEBUG.
set(CMAKE_C_FLAGS_RELEASE "-O2 -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_DEBUG "-Og -fno-omit-frame-pointer")

if(CADRE_SANITIZE)
    cadre_c_options(-fsanitize=${CADRE_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${CADRE_SANITIZE})
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    cadre_c_options(-fstack-protector-strong -fstack-clash-protection
        $<$<C_COMPILER_ID:GNU>:-ftrivial-auto-var-init=zero>
        -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
    include(CheckCCompilerFlag)
    check_c_compiler_flag(-fcf-protection=full CADRE_HAVE_CF_PROTECTION)
    if(CADRE_HAVE_CF_PROTECTION)
        cadre_c_options(-fcf-protection=full)
    endif()
    add_link_options(-Wl,-z,relro,-z,now)
endif()

# Tests are built by the hundreds, and how fast they run is no matter: what they test is built as it ships.
# Without the optimizer they take two thirds of the time, in a sanitizer build half of it; what they do to
# memory is still checked. The linker is the quickest of those that come with the compiler, and takes half as
# long where it need not copy what debuggers read: a release build's tests have symbols, a debug build's lines too.
include(CheckLinkerFlag)
set(CADRE_TEST_OPTIONS -O0 -g1 -U_FORTIFY_SOURCE)
if(CADRE_SANITIZE MATCHES "undefined")
    list(APPEND CADRE_TEST_OPTIONS -fno-sanitize=undefined)
endif()
set(CADRE_TEST_LINK_OPTIONS "")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    check_linker_flag(C -fuse-ld=gold CADRE_HAVE_GOLD)
    if(CADRE_HAVE_GOLD)
        set(CADRE_TEST_LINK_OPTIONS -fuse-ld=gold)
    endif()
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CADRE_SANITIZE)
    list(APPEND CADRE_TEST_LINK_OPTIONS -Wl,--strip-debug)
endif()

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
