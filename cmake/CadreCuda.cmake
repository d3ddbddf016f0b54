# Whether the CUDA device is built, and with what. Sets CADRE_HAVE_CUDA.
#
# CADRE_CUDA=AUTO builds it where nvcc is found, ON insists, OFF does not look.
set(CADRE_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO, ON or OFF")
set_property(CACHE CADRE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(CADRE_HAVE_CUDA OFF)

if(NOT CADRE_CUDA MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "CADRE_CUDA is \"${CADRE_CUDA}\", not AUTO, ON or OFF")
endif()
if(CADRE_CUDA STREQUAL "OFF")
    return()
endif()
if(CADRE_SANITIZE)
    if(CADRE_CUDA STREQUAL "ON")
        message(FATAL_ERROR "CADRE_CUDA=ON: the CUDA device is not built with sanitizers; "
            "on a GPU compute-sanitizer takes their place (tests/gpu/run)")
    endif()
    return()
endif()

# nvcc is often installed but not in PATH.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(CADRE_NVCC nvcc HINTS /usr/local/cuda/bin)
    mark_as_advanced(CADRE_NVCC)
    if(CADRE_NVCC)
        set(ENV{CUDACXX} "${CADRE_NVCC}")
    endif()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
    if(CADRE_CUDA STREQUAL "ON")
        message(FATAL_ERROR "CADRE_CUDA=ON, but there is no CUDA compiler that works: nvcc is neither in PATH nor "
            "in /usr/local/cuda/bin (say where: -DCMAKE_CUDA_COMPILER=/path/to/nvcc)")
    endif()
    message(STATUS "CUDA device: not built, there is no nvcc")
    return()
endif()

# Before enable_language, which would choose one of its own: Ampere, Hopper, and what comes later by
# way of Hopper's PTX.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
endif()
if(CMAKE_C_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_C_COMPILER_LAUNCHER}")
endif()
enable_language(CUDA)
# CMake 3.25 wants to call this library outdated, and stops where the toolkit (13) has none any more.
if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit)
if(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static)
    if(CADRE_CUDA STREQUAL "ON")
        message(FATAL_ERROR "CADRE_CUDA=ON, but the toolkit of ${CMAKE_CUDA_COMPILER} has no cublasLt or no static "
            "runtime")
    endif()
    message(STATUS "CUDA device: not built, the toolkit has no cublasLt or no static runtime")
    return()
endif()
message(STATUS "CUDA device: built with ${CMAKE_CUDA_COMPILER} for ${CMAKE_CUDA_ARCHITECTURES}")
set(CADRE_HAVE_CUDA ON)
