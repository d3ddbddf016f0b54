# One static library per folder, one program per main file, one test program per *_test.c.

# cadre_folder_library(NAME [EXCLUDE file...] [LINK target...])
# Builds every .c file of the current folder, but for those named, into the static library NAME.
function(cadre_folder_library name)
    cmake_parse_arguments(arg "" "" "EXCLUDE;LINK" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.c")
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
function(cadre_program name)
    cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    target_compile_options(${name} PRIVATE ${CADRE_WARNINGS})
    target_link_libraries(${name} PRIVATE ${arg_LINK})
endfunction()

# cadre_class_tests(PREFIX FOLDER LINK target...)
# One Criterion program per FOLDER/*_test.c, registered with CTest as PREFIX/<name> under a deadline.
function(cadre_class_tests prefix folder)
    cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.c")
    foreach(source IN LISTS sources)
        get_filename_component(stem "${source}" NAME_WE)
        set(target "test_${prefix}_${stem}")
        add_executable(${target} "${source}")
        target_compile_options(${target} PRIVATE ${CADRE_WARNINGS})
        target_link_libraries(${target} PRIVATE ${arg_LINK} PkgConfig::criterion)
        set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
            "${CMAKE_BINARY_DIR}/tests")
        add_test(NAME ${prefix}/${stem} COMMAND ${target} --jobs 2)
        set_tests_properties(${prefix}/${stem} PROPERTIES TIMEOUT 120)
    endforeach()
endfunction()
