# The devices without a cluster, for machines that have CUDA and few libraries: cadre-gpu-check, and the part of
# bench/gpu that runs in one process (CADRE_DEVICE_ONLY; tests/gpu/run decides).
add_subdirectory(worker/device)
if(CADRE_HAVE_CUDA)
    add_subdirectory(worker/device/cuda)
endif()
enable_testing()
add_subdirectory(tests/gpu)
add_subdirectory(bench/gpu)
