# One static library per folder, one program per main file, one test program per *_test.c.

# cadre_folder_library(NAME [ROOMS folder...] [EXCLUDE file...] [LINK target...])
# Builds every .c file of the current folder and of the folders in it that are named, but for those
# excluded, into the static library NAME.
function(cadre_folder_library name)
    cmake_parse_arguments(arg "" "" "ROOMS;EXCLUDE;LINK" ${ARGN})
    set(patterns "${CMAKE_CURRENT_SOURCE_DIR}/*.c")
    foreach(room IN LISTS arg_ROOMS)
        list(APPEND patterns "${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.c")
    endforeach()
    file(GLOB sources CONFIGURE_DEPENDS ${patterns})
    foreach(file IN LISTS arg_EXCLUDE)
        list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
    endforeach()
    if(NOT sources)
        add_library(${name} INTERFACE)
        target_link_libraries(${name} INTERFACE ${arg_LINK})
        return()
    endif()
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}"
        "${CMAKE_SOURCE_DIR}/common/include" "${CMAKE_SOURCE_DIR}/coordinator/include"
        "${CMAKE_SOURCE_DIR}/worker/include")
    target_compile_options(${name} PRIVATE ${CADRE_WARNINGS})
    target_link_libraries(${name} PUBLIC ${arg_LINK})
endfunction()

# cadre_program(NAME SOURCES file... LINK target...)
# An executable NAME in bin/.
function(cadre_program name)
    cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    target_compile_options(${name} PRIVATE ${CADRE_WARNINGS})
    target_link_libraries(${name} PRIVATE ${arg_LINK})
endfunction()

# cadre_add_test(NAME test LABEL label TIMEOUT seconds COMMAND command arg...)
# Registers one test. In a sanitizer build it runs under tests/sanitized.sh, because Criterion hides
# what a sanitizer reports when a process ends. Every test finds the programs in $CADRE_BIN_DIR and
# files of the source tree under $CADRE_SOURCE_DIR. The global property CADRE_TESTED lists the targets whose files
# commands name.
function(cadre_add_test)
    cmake_parse_arguments(arg "" "NAME;LABEL;TIMEOUT" "COMMAND" ${ARGN})
    string(REGEX MATCHALL "TARGET_FILE:[^>]+" programs "${arg_COMMAND}")
    list(TRANSFORM programs REPLACE "TARGET_FILE:" "")
    set_property(GLOBAL APPEND PROPERTY CADRE_TESTED ${programs})
    if(CADRE_SANITIZE)
        list(PREPEND arg_COMMAND "${CMAKE_SOURCE_DIR}/tests/sanitized.sh")
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
    set_tests_properties(${arg_NAME} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT}
        ENVIRONMENT "CADRE_BIN_DIR=${CMAKE_BINARY_DIR}/bin;CADRE_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
endfunction()

# cadre_test_program(TARGET SOURCES file... LINK target...)
# A test executable in tests/ of the build folder.
function(cadre_test_program target)
    cadre_program(${target} ${ARGN})
    target_link_options(${target} PRIVATE ${CADRE_TEST_LINK_OPTIONS})
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endfunction()

# cadre_class_tests(PREFIX FOLDER [ROOMS folder...] LINK target...)
# One Criterion program per FOLDER/*_test.c, and those of the folders in it that are named, registered with CTest as PREFIX/<name> under a deadline.
# What is tested is built as it ships; the tests around it are compiled for less.
function(cadre_class_tests prefix folder)
    cmake_parse_arguments(arg "" "" "ROOMS;LINK" ${ARGN})
    if(CADRE_SANITIZE STREQUAL "thread")
        return() # Criterion does not start under ThreadSanitizer
    endif()
    if(CADRE_SANITIZE)
        if(NOT TARGET cadre_criterion_runner)
            add_library(cadre_criterion_runner OBJECT "${CMAKE_SOURCE_DIR}/tests/criterion_runner.c")
            target_compile_options(cadre_criterion_runner PRIVATE ${CADRE_WARNINGS})
        endif()
        set(runner $<TARGET_OBJECTS:cadre_criterion_runner>)
    endif()
    set(patterns "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.c")
    foreach(room IN LISTS arg_ROOMS)
        list(APPEND patterns "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${room}/*_test.c")
    endforeach()
    file(GLOB sources CONFIGURE_DEPENDS ${patterns})
    foreach(source IN LISTS sources)
        get_filename_component(stem "${source}" NAME_WE)
        set(target "test_${prefix}_${stem}")
        cadre_test_program(${target} SOURCES "${source}" ${runner}
            LINK ${arg_LINK} PkgConfig::criterion)
        target_compile_options(${target} PRIVATE ${CADRE_TEST_OPTIONS})
        cadre_add_test(NAME ${prefix}/${stem} LABEL ${prefix} TIMEOUT 1800
            COMMAND $<TARGET_FILE:${target}> --jobs 2)
    endforeach()
endfunction()

# cadre_plain_tests(PREFIX FOLDER LINK target...)
# One plain program per FOLDER/*_test.c (exit status 0 is a pass): what must run under ThreadSanitizer
# too, and so cannot use Criterion.
function(cadre_plain_tests prefix folder)
    cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.c")
    foreach(source IN LISTS sources)
        get_filename_component(stem "${source}" NAME_WE)
        set(target "test_${prefix}_${stem}")
        cadre_test_program(${target} SOURCES "${source}" LINK ${arg_LINK})
        cadre_add_test(NAME ${prefix}/${stem} LABEL ${prefix} TIMEOUT 1200
            COMMAND $<TARGET_FILE:${target}>)
    endforeach()
endfunction()

# cadre_fuzz_targets(FOLDER LINK target...)
# One program fuzz_<name> per FOLDER/<name>_fuzz.c, which defines LLVMFuzzerTestOneInput. It replays
# FOLDER/corpus/<name>/ as a test; with CADRE_FUZZ (clang) it is a libFuzzer program instead.
function(cadre_fuzz_targets folder)
    cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
    if(CADRE_SANITIZE STREQUAL "thread")
        return() # one thread: nothing to see
    endif()
    set(place "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
    file(GLOB sources CONFIGURE_DEPENDS "${place}/*_fuzz.c")
    foreach(source IN LISTS sources)
        get_filename_component(name "${source}" NAME_WE)
        string(REGEX REPLACE "_fuzz$" "" name "${name}")
        if(CADRE_FUZZ)
            cadre_test_program(fuzz_${name} SOURCES "${source}" LINK ${arg_LINK})
            target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        else()
            cadre_test_program(fuzz_${name} SOURCES "${source}" "${place}/replay.c"
                LINK ${arg_LINK})
            cadre_add_test(NAME fuzz/${name} LABEL fuzz TIMEOUT 600
                COMMAND $<TARGET_FILE:fuzz_${name}> "${place}/corpus/${name}")
        endif()
    endforeach()
endfunction()
