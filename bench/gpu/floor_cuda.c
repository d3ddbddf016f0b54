#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/floor.h"
#include "common/base/memory.h"
#include "common/base/status.h"

#define WORKSPACE_SIZE ((size_t)32 << 20)

/* One product: row-major out = left right is column-major out' = right' left'. */
typedef struct {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t layouts[3]; /* right, left, out */
    cublasLtMatmulAlgo_t algorithm;
} product_t;

struct gpu_floor {
    cublasLtHandle_t cublas;
    cudaStream_t stream;
    product_t products[GPU_PRODUCTS_MAX];
    int product_count;
    float *numbers[3]; /* right, left, out: of the largest */
    void *workspace;
};

static int
check(int error, const char *call)
{
    return error == 0 ? 0 : cadre_fail(CADRE_EDEVICE, "%s: error %d", call, error);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_status = check((int)(call), #call);                                                \
        if (try_status < 0) {                                                                      \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

static cublasComputeType_t
find_math(const char *math)
{
    return strcmp(math, "tf32") == 0   ? CUBLAS_COMPUTE_32F_FAST_TF32
           : strcmp(math, "bf16") == 0 ? CUBLAS_COMPUTE_32F_FAST_16BF
                                       : CUBLAS_COMPUTE_32F;
}

/* A matrix of `rows` x `columns` row-major numbers, `repeats` of them. */
static int
make_layout(cublasLtMatrixLayout_t *layout, int rows, int columns, int repeats)
{
    const int64_t stride = (int64_t)rows * columns;
    TRY(cublasLtMatrixLayoutCreate(layout, CUDA_R_32F, (uint64_t)columns, (uint64_t)rows, columns));
    TRY(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &repeats,
                                         sizeof(repeats)));
    TRY(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &stride, sizeof(stride)));
    return 0;
}

static int
choose_algorithm(gpu_floor_t *self, product_t *product)
{
    cublasLtMatmulPreference_t preference = NULL;
    const size_t size = WORKSPACE_SIZE;
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;

    TRY(cublasLtMatmulPreferenceCreate(&preference));
    TRY(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &size, sizeof(size)));
    int error = (int)cublasLtMatmulAlgoGetHeuristic(
        self->cublas, product->operation, product->layouts[0], product->layouts[1],
        product->layouts[2], product->layouts[2], preference, 1, &result, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    if (error != 0 || found < 1) {
        return cadre_fail(CADRE_EDEVICE, "cublasLt has no algorithm: error %d", error);
    }

    product->algorithm = result.algo;
    return 0;
}

static int
make_product(gpu_floor_t *self, const gpu_floor_work_t *work, int index)
{
    const cadre_blas_product_t *about = &work->products[index];
    const int repeats = work->repeats[index];
    product_t *product = &self->products[self->product_count++];
    const cublasOperation_t left = about->transpose_left ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t right = about->transpose_right ? CUBLAS_OP_T : CUBLAS_OP_N;

    TRY(cublasLtMatmulDescCreate(&product->operation, find_math(work->math), CUDA_R_32F));
    TRY(cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_TRANSA, &right,
                                       sizeof(right)));
    TRY(cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_TRANSB, &left,
                                       sizeof(left)));
    const bool flip_right = about->transpose_right;
    const bool flip_left = about->transpose_left;
    int status = make_layout(&product->layouts[0], flip_right ? about->n : about->inner,
                             flip_right ? about->inner : about->n, repeats);
    if (status < 0) {
        return status;
    }

    status = make_layout(&product->layouts[1], flip_left ? about->inner : about->m,
                         flip_left ? about->m : about->inner, repeats);
    if (status < 0) {
        return status;
    }

    status = make_layout(&product->layouts[2], about->m, about->n, repeats);
    if (status < 0) {
        return status;
    }

    return choose_algorithm(self, product);
}

static size_t
larger(size_t size, size_t other)
{
    return size > other ? size : other;
}

/* Zeros multiply faster than other numbers, because they take less power. */
static int
make_numbers(gpu_floor_t *self, const gpu_floor_work_t *work)
{
    size_t sizes[3] = {0};
    for (int i = 0; i < work->product_count; i++) {
        const cadre_blas_product_t *about = &work->products[i];
        const size_t m = (size_t)about->m;
        const size_t n = (size_t)about->n;
        const size_t inner = (size_t)about->inner;
        const size_t repeats = (size_t)work->repeats[i];
        sizes[0] = larger(sizes[0], inner * n * repeats);
        sizes[1] = larger(sizes[1], m * inner * repeats);
        sizes[2] = larger(sizes[2], m * n * repeats);
    }

    size_t size = larger(sizes[0], sizes[1]);
    cadre_auto(cadre_free) float *numbers = cadre_calloc(size, sizeof(float));
    for (size_t i = 0; i < size; i++) {
        numbers[i] = (float)(i * 2654435761U % 65536) / 65536.0F - 0.5F;
    }

    for (int i = 0; i < 3; i++) {
        void *memory = NULL;
        TRY(cudaMalloc(&memory, sizes[i] * sizeof(float)));
        self->numbers[i] = memory;
        if (i < 2) {
            TRY(cudaMemcpy(memory, numbers, sizes[i] * sizeof(float), cudaMemcpyHostToDevice));
        }
    }

    TRY(cudaMalloc(&self->workspace, WORKSPACE_SIZE));
    TRY(cudaDeviceSynchronize());
    return 0;
}

static int
make(gpu_floor_t *self, const gpu_floor_work_t *work)
{
    cudaError_t error = cudaSetDevice(work->index);
    if (error != cudaSuccess) {
        return cadre_fail(CADRE_EUNAVAILABLE, "cuda:%d: %s", work->index,
                          cudaGetErrorString(error));
    }

    TRY(cublasLtCreate(&self->cublas));
    TRY(cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking));
    int status = make_numbers(self, work);
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < work->product_count; i++) {
        status = make_product(self, work, i);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

int
gpu_floor_open(const gpu_floor_work_t *work, gpu_floor_t **out)
{
    cadre_auto(gpu_floor_close) gpu_floor_t *self = cadre_calloc(1, sizeof(*self));
    int status = make(self, work);
    if (status < 0) {
        return status;
    }
    *out = self;
    self = NULL;
    return 0;
}

void
gpu_floor_close(gpu_floor_t **self_p)
{
    gpu_floor_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (int i = 0; i < self->product_count; i++) {
        for (int k = 0; k < 3; k++) {
            cublasLtMatrixLayoutDestroy(self->products[i].layouts[k]);
        }
        cublasLtMatmulDescDestroy(self->products[i].operation);
    }

    for (int i = 0; i < 3; i++) {
        cudaFree(self->numbers[i]);
    }

    cudaFree(self->workspace);
    if (self->stream) {
        cudaStreamDestroy(self->stream);
    }
    if (self->cublas) {
        cublasLtDestroy(self->cublas);
    }

    free(self);
}

int
gpu_floor_run(gpu_floor_t *self, int steps)
{
    const float one = 1;
    const float zero = 0;

    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < self->product_count; i++) {
            const product_t *product = &self->products[i];
            TRY(cublasLtMatmul(self->cublas, product->operation, &one, self->numbers[0],
                               product->layouts[0], self->numbers[1], product->layouts[1], &zero,
                               self->numbers[2], product->layouts[2], self->numbers[2],
                               product->layouts[2], &product->algorithm, self->workspace,
                               WORKSPACE_SIZE, self->stream));
        }
    }

    TRY(cudaStreamSynchronize(self->stream));
    return 0;
}
