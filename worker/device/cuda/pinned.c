#include "worker/device/cuda/pinned.h"

#include "worker/device/cuda/cuda_status.h"

int
cadre_pinned_grow(char **memory, size_t *memory_size_bytes, size_t size_bytes)
{
    if (size_bytes <= *memory_size_bytes) {
        return 0;
    }
    CADRE_CUDA_TRY(cudaFreeHost(*memory));
    *memory = NULL;
    *memory_size_bytes = 0;
    void *grown = NULL;
    CADRE_CUDA_TRY(cudaMallocHost(&grown, size_bytes));
    *memory = grown;
    *memory_size_bytes = size_bytes;
    return 0;
}

bool
cadre_pinned_is(const void *memory)
{
    struct cudaPointerAttributes attributes;
    bool known = cudaPointerGetAttributes(&attributes, memory) == cudaSuccess;
    if (!known) {
        cudaGetLastError();
    }
    return known && attributes.type == cudaMemoryTypeHost;
}
