# libcadre as users get it: one shared and one static library out of the folder libraries that a
# coordinator program needs, its public headers, a pkg-config file and a CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(CADRE_PUBLIC_FOLDERS cadre_common cadre_graph cadre_checkpoint cadre_device cadre_worker_data
    cadre_worker_core cadre_ps_core cadre_coordinator_core)
set(CADRE_PUBLIC_LINK PkgConfig::zmq PkgConfig::msgpack PkgConfig::lmdb PkgConfig::jansson
    PkgConfig::xxhash PkgConfig::zlib PkgConfig::zstd ${CADRE_HTTP_LINK} Threads::Threads ${CMAKE_DL_LIBS} m)

set(cadre_objects "")
foreach(folder IN LISTS CADRE_PUBLIC_FOLDERS)
    if(TARGET ${folder})
        get_target_property(type ${folder} TYPE)
        if(type STREQUAL "STATIC_LIBRARY")
            list(APPEND cadre_objects $<TARGET_OBJECTS:${folder}>)
        endif()
    endif()
endforeach()

add_library(cadre SHARED ${cadre_objects})
add_library(cadre_static STATIC ${cadre_objects})
# Until 1.0 a minor version may change what programs were built against.
set_target_properties(cadre PROPERTIES BUILD_WITH_INSTALL_RPATH ON VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set_target_properties(cadre_static PROPERTIES OUTPUT_NAME cadre)
target_link_options(cadre PRIVATE -Wl,--as-needed -Wl,--no-undefined
    "-Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/cadre.map")
set_target_properties(cadre PROPERTIES LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/cadre.map")
foreach(library cadre cadre_static)
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/common/include>
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/coordinator/include>
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/worker/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
if(CADRE_SANITIZE)
    # A shared library of sanitized code leaves the sanitizer's symbols to the program.
    target_link_options(cadre PRIVATE -Wl,-z,undefs)
endif()
target_link_libraries(cadre PRIVATE ${CADRE_PUBLIC_LINK})
target_link_libraries(cadre_static INTERFACE ${CADRE_PUBLIC_LINK})

install(TARGETS cadre EXPORT cadre-targets)
install(TARGETS cadre_static)
foreach(folder common coordinator worker)
    if(IS_DIRECTORY "${CMAKE_SOURCE_DIR}/${folder}/include/cadre")
        install(DIRECTORY "${CMAKE_SOURCE_DIR}/${folder}/include/cadre"
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
    endif()
endforeach()
# Built as they are installed, without a RUNPATH: CMake pads the one of the build folder with an empty
# element, and the loader takes that for the current folder.
foreach(program cadre_command cadre-ps cadre-worker cadre-bench)
    if(TARGET ${program})
        set_target_properties(${program} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
        install(TARGETS ${program})
    endif()
endforeach()

# The units of deploy/systemd, which name programs in /usr/bin, with those of the prefix.
install(CODE "
    foreach(role coordinator ps worker)
        file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/cadre-\${role}@.service\" unit)
        string(REPLACE \"/usr/bin/\" \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/\" unit \"\${unit}\")
        file(WRITE \"${CMAKE_BINARY_DIR}/units/cadre-\${role}@.service\" \"\${unit}\")
    endforeach()" COMPONENT systemd)
install(DIRECTORY "${CMAKE_BINARY_DIR}/units/" DESTINATION lib/systemd/system COMPONENT systemd)
foreach(kind sysusers tmpfiles)
    install(FILES "${CMAKE_SOURCE_DIR}/deploy/systemd/cadre.${kind}" DESTINATION lib/${kind}.d RENAME cadre.conf
        COMPONENT systemd)
endforeach()

install(EXPORT cadre-targets NAMESPACE cadre:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cadre)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/cadre-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_SOURCE_DIR}/cmake/cadre-config.cmake"
    "${CMAKE_BINARY_DIR}/cadre-config-version.cmake"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cadre)

# The prefix is only known when installing (cmake --install --prefix), so the file finds it from
# where it lies.
file(RELATIVE_PATH CADRE_PC_TO_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
configure_file("${CMAKE_SOURCE_DIR}/cmake/cadre.pc.in" "${CMAKE_BINARY_DIR}/cadre.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/cadre.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
