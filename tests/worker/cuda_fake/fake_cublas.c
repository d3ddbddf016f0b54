/* cublasLt's products in the columns that it thinks in, as its documentation defines them. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/memory.h"
#include "tests/worker/cuda_fake/fake_cuda.h"

struct cublasLtContext {
    int unused;
};

typedef struct {
    cublasComputeType_t compute;
    int32_t flip_a;
    int32_t flip_b;
} product_t;

typedef struct {
    uint64_t rows;
    uint64_t columns;
    int64_t leading;
    int32_t batches;
    cudaDataType type;
    int64_t stride;
} layout_t;

static cublasStatus_t
make(void *out, size_t size_bytes)
{
    void *object = cadre_calloc(1, size_bytes);
    memcpy(out, &object, sizeof(object));
    fake_count_object(1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
drop(void *object)
{
    free(object);
    fake_count_object(-1);
    return CUBLAS_STATUS_SUCCESS;
}

static void
set(void *field, size_t field_size, const void *value, size_t size_bytes)
{
    cadre_assert(size_bytes == field_size);
    memcpy(field, value, size_bytes);
}

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *handle)
{
    int error = fake_error("cublasLtCreate");
    return error ? (cublasStatus_t)error : make(handle, sizeof(struct cublasLtContext));
}

cublasStatus_t
cublasLtDestroy(cublasLtHandle_t handle)
{
    return drop(handle);
}

const char *
cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_FAKE";
}

cublasStatus_t
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                         cudaDataType_t scale)
{
    cadre_assert(scale == CUDA_R_32F);
    make(out, sizeof(product_t));
    ((product_t *)*out)->compute = compute;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t self)
{
    return drop(self);
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t self, cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t size_bytes)
{
    product_t *product = (product_t *)self;
    bool is_a = attribute == CUBLASLT_MATMUL_DESC_TRANSA;
    cadre_assert(is_a || attribute == CUBLASLT_MATMUL_DESC_TRANSB);
    set(is_a ? &product->flip_a : &product->flip_b, sizeof(int32_t), value, size_bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                           uint64_t columns, int64_t leading)
{
    cadre_assert((type == CUDA_R_32F || type == CUDA_R_16BF) && leading >= (int64_t)rows);
    make(out, sizeof(layout_t));
    *(layout_t *)*out = (layout_t){
        .rows = rows, .columns = columns, .leading = leading, .batches = 1, .type = type};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t self)
{
    return drop(self);
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t self,
                                 cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                 size_t size_bytes)
{
    layout_t *layout = (layout_t *)self;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
        set(&layout->batches, sizeof(layout->batches), value, size_bytes);
    } else {
        cadre_assert(attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
        set(&layout->stride, sizeof(layout->stride), value, size_bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    return make(out, 1);
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t self)
{
    return drop(self);
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t self,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t size_bytes)
{
    (void)self;
    (void)value;
    cadre_assert(attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ||
                 size_bytes == sizeof(size_t));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int wanted,
                               cublasLtMatmulHeuristicResult_t results[], int *found)
{
    cadre_assert(handle && product && a && b && c && d && preference && wanted == 1);
    *found = 0;
    int error = fake_error("cublasLtMatmulAlgoGetHeuristic");
    if (error) {
        return (cublasStatus_t)error;
    }
    memset(&results[0], 0, sizeof(results[0]));
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

typedef struct {
    product_t product;
    layout_t layout_a;
    layout_t layout_b;
    layout_t layout_d;
    const void *a;
    const void *b;
    float *d;
} call_t;

/* Element (row, column) of op(x) in a batch. */
static float
element(const void *x, const layout_t *layout, bool flip, uint64_t row, uint64_t column,
        int32_t batch)
{
    int64_t at = batch * layout->stride + (int64_t)(flip ? row : column) * layout->leading +
                 (int64_t)(flip ? column : row);
    if (layout->type == CUDA_R_32F) {
        return ((const float *)x)[at];
    }
    uint32_t word = (uint32_t)((const uint16_t *)x)[at] << 16;
    float number = 0;
    memcpy(&number, &word, sizeof(number));
    return number;
}

static void
multiply(const void *argument)
{
    const call_t *call = argument;
    bool flip_a = call->product.flip_a == CUBLAS_OP_T;
    bool flip_b = call->product.flip_b == CUBLAS_OP_T;
    uint64_t inner = flip_a ? call->layout_a.rows : call->layout_a.columns;
    cadre_assert(call->layout_a.type == call->layout_b.type && call->layout_d.type == CUDA_R_32F);
    cadre_assert(call->layout_a.type == CUDA_R_32F || call->product.compute == CUBLAS_COMPUTE_32F);
    cadre_assert(inner == (flip_b ? call->layout_b.columns : call->layout_b.rows));
    cadre_assert((flip_a ? call->layout_a.columns : call->layout_a.rows) == call->layout_d.rows);
    cadre_assert((flip_b ? call->layout_b.rows : call->layout_b.columns) == call->layout_d.columns);
    for (int32_t batch = 0; batch < call->layout_d.batches; batch++) {
        float *d = call->d + batch * call->layout_d.stride;
        for (uint64_t column = 0; column < call->layout_d.columns; column++) {
            for (uint64_t row = 0; row < call->layout_d.rows; row++) {
                double sum = 0;
                for (uint64_t k = 0; k < inner; k++) {
                    sum += (double)element(call->a, &call->layout_a, flip_a, row, k, batch) *
                           element(call->b, &call->layout_b, flip_b, k, column, batch);
                }
                d[(int64_t)column * call->layout_d.leading + (int64_t)row] = (float)sum;
            }
        }
    }
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha,
               const void *a, cublasLtMatrixLayout_t layout_a, const void *b,
               cublasLtMatrixLayout_t layout_b, const void *beta, const void *c,
               cublasLtMatrixLayout_t layout_c, void *d, cublasLtMatrixLayout_t layout_d,
               const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_size,
               cudaStream_t stream)
{
    int error = fake_error("cublasLtMatmul");
    if (error) {
        return (cublasStatus_t)error;
    }
    cadre_assert(handle && algorithm && workspace && workspace_size >= (size_t)32 << 20);
    cadre_assert(*(const float *)alpha == 1 && *(const float *)beta == 0);
    cadre_assert(c == d && layout_c == layout_d);
    cadre_assert((((uintptr_t)a | (uintptr_t)b | (uintptr_t)d) & 255) == 0);
    call_t call = {.product = *(const product_t *)product,
                   .layout_a = *(const layout_t *)layout_a,
                   .layout_b = *(const layout_t *)layout_b,
                   .layout_d = *(const layout_t *)layout_d,
                   .a = a,
                   .b = b,
                   .d = d};
    fake_enqueue(stream, multiply, &call, sizeof(call));
    return CUBLAS_STATUS_SUCCESS;
}
