/* cublasLt's products in the columns that it thinks in, as its documentation defines them. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "tests/worker/cuda_fake/fake_cuda.h"

struct cublasLtContext {
    int unused;
};

typedef struct {
    cublasComputeType_t compute;
    int32_t flip_a;
    int32_t flip_b;
    cublasLtEpilogue_t epilogue;
    float *bias;
    uint8_t *mask;
    int64_t mask_leading; /* bits */
} product_t;

typedef struct {
    uint64_t rows;
    uint64_t columns;
    int64_t leading;
    int32_t batches;
    cudaDataType type;
    int64_t stride;
} layout_t;

/* Of cublasLtEpilogue_t. */
enum {
    BIT_RELU = 2,
    BIT_BIAS = 4,
    BIT_DRELU = 8,
    BIT_SUM = 16,
    BIT_MASK = 128,
    BIT_FACTOR_SUMS = CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB,
};

/* ---- controls ---- */

static int refused;
static fake_cublas_counts_t counts;

void
fake_cublas_refuse(int bits)
{
    refused = bits;
}

fake_cublas_counts_t
fake_cublas_counts(void)
{
    return counts;
}

static bool
is_offered(cublasLtEpilogue_t epilogue)
{
    return ((int)epilogue & refused) == 0;
}

static void
count_call(cublasLtEpilogue_t epilogue)
{
    counts.plain += epilogue == CUBLASLT_EPILOGUE_DEFAULT;
    counts.bias += epilogue == CUBLASLT_EPILOGUE_BIAS;
    counts.relu += (epilogue & BIT_RELU) && !(epilogue & BIT_MASK);
    counts.relu_mask += (epilogue & BIT_RELU) && (epilogue & BIT_MASK);
    counts.drelu += epilogue == CUBLASLT_EPILOGUE_DRELU;
    counts.drelu_sum += epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD;
    counts.factor_sum += (epilogue & BIT_FACTOR_SUMS) != 0;
}

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
    ((product_t *)*out)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
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
    switch ((int)attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        set(&product->flip_a, sizeof(int32_t), value, size_bytes);
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        set(&product->flip_b, sizeof(int32_t), value, size_bytes);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        set(&product->epilogue, sizeof(uint32_t), value, size_bytes);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        set((void *)&product->bias, sizeof(void *), value, size_bytes);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        set((void *)&product->mask, sizeof(void *), value, size_bytes);
        break;
    default:
        cadre_assert(attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
        set(&product->mask_leading, sizeof(int64_t), value, size_bytes);
    }
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

/* What the documentation asks of an epilogue's attributes. */
static void
check_epilogue(const product_t *product, const layout_t *d)
{
    int epilogue = (int)product->epilogue;
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) {
        return;
    }
    cadre_assert(d->batches == 1);
    if (epilogue & (BIT_BIAS | BIT_SUM | BIT_FACTOR_SUMS)) {
        cadre_assert(product->bias && ((uintptr_t)product->bias & 255) == 0);
    }
    if (epilogue & BIT_MASK) {
        cadre_assert(product->mask && ((uintptr_t)product->mask & 15) == 0);
        cadre_assert(product->mask_leading % 128 == 0);
        cadre_assert(product->mask_leading >= (int64_t)d->rows);
    }
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
    const product_t *wanted_product = (const product_t *)product;
    if (!is_offered(wanted_product->epilogue)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    check_epilogue(wanted_product, (const layout_t *)d);
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

/* Element (row, column) of op(x). */
static float
element(const void *x, const layout_t *layout, bool flip, uint64_t row, uint64_t column)
{
    int64_t at = (int64_t)(flip ? row : column) * layout->leading + (int64_t)(flip ? column : row);
    if (layout->type == CUDA_R_32F) {
        return ((const float *)x)[at];
    }
    uint32_t word = (uint32_t)((const uint16_t *)x)[at] << 16;
    float number = 0;
    memcpy(&number, &word, sizeof(number));
    return number;
}

static size_t
element_size(const layout_t *layout)
{
    return layout->type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

static const void *
batch_of(const void *x, const layout_t *layout, int32_t batch)
{
    return (const char *)x + batch * layout->stride * (int64_t)element_size(layout);
}

/* ---- epilogues ---- */

static bool
has(const product_t *product, int bit)
{
    return ((int)product->epilogue & bit) != 0;
}

static void
write_mask(const product_t *product, int64_t row, int64_t column, bool on)
{
    int64_t bit = column * product->mask_leading + row;
    uint8_t one = (uint8_t)(1 << bit % 8);
    product->mask[bit / 8] =
        on ? product->mask[bit / 8] | one : (uint8_t)(product->mask[bit / 8] & ~one);
}

static bool
read_mask(const product_t *product, int64_t row, int64_t column)
{
    int64_t bit = column * product->mask_leading + row;
    return (product->mask[bit / 8] >> bit % 8 & 1) != 0;
}

/* What becomes of one number of the product. NaN becomes 0 in a relu, and where a mask is 0. */
static float
finished(const product_t *product, int64_t row, int64_t column, float number)
{
    if (has(product, BIT_BIAS)) {
        number += product->bias[row];
    }
    if (has(product, BIT_RELU)) {
        if (has(product, BIT_MASK)) {
            write_mask(product, row, column, number > 0);
        }
        number = number > 0 ? number : 0;
    }
    if (has(product, BIT_DRELU)) {
        number = read_mask(product, row, column) ? number : 0;
    }
    return number;
}

static void
sum_output(const call_t *call)
{
    for (uint64_t row = 0; row < call->layout_d.rows; row++) {
        double sum = 0;
        for (uint64_t column = 0; column < call->layout_d.columns; column++) {
            sum += call->d[(int64_t)column * call->layout_d.leading + (int64_t)row];
        }
        call->product.bias[row] = (float)sum;
    }
}

/* The sum of op(A) or op(B) along the inner dimension. */
static void
sum_factor(const call_t *call, uint64_t inner)
{
    bool a = call->product.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    uint64_t count = a ? call->layout_d.rows : call->layout_d.columns;
    for (uint64_t i = 0; i < count; i++) {
        double sum = 0;
        for (uint64_t k = 0; k < inner; k++) {
            sum += a ? element(call->a, &call->layout_a, call->product.flip_a == CUBLAS_OP_T, i, k)
                     : element(call->b, &call->layout_b, call->product.flip_b == CUBLAS_OP_T, k, i);
        }
        call->product.bias[i] = (float)sum;
    }
}

/* op(x) row by row, each of `inner` floats. Caller frees. */
static float *
spread(const void *x, const layout_t *layout, bool flip, uint64_t inner)
{
    uint64_t rows = flip ? layout->columns : layout->rows;
    float *dense = cadre_calloc(rows * inner + 1, sizeof(*dense));
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t k = 0; k < inner; k++) {
            dense[row * inner + k] = element(x, layout, flip, row, k);
        }
    }
    return dense;
}

static void
multiply(const void *argument)
{
    const call_t *call = argument;
    count_call(call->product.epilogue);
    bool flip_a = call->product.flip_a == CUBLAS_OP_T;
    bool flip_b = call->product.flip_b == CUBLAS_OP_T;
    uint64_t inner = flip_a ? call->layout_a.rows : call->layout_a.columns;
    cadre_assert(call->layout_a.type == call->layout_b.type && call->layout_d.type == CUDA_R_32F);
    cadre_assert(call->layout_a.type == CUDA_R_32F || call->product.compute == CUBLAS_COMPUTE_32F);
    cadre_assert(inner == (flip_b ? call->layout_b.columns : call->layout_b.rows));
    cadre_assert((flip_a ? call->layout_a.columns : call->layout_a.rows) == call->layout_d.rows);
    cadre_assert((flip_b ? call->layout_b.rows : call->layout_b.columns) == call->layout_d.columns);
    for (int32_t batch = 0; batch < call->layout_d.batches; batch++) {
        float *a =
            spread(batch_of(call->a, &call->layout_a, batch), &call->layout_a, flip_a, inner);
        float *b =
            spread(batch_of(call->b, &call->layout_b, batch), &call->layout_b, !flip_b, inner);
        float *d = call->d + batch * call->layout_d.stride;
        for (uint64_t column = 0; column < call->layout_d.columns; column++) {
            for (uint64_t row = 0; row < call->layout_d.rows; row++) {
                const float *left = a + row * inner;
                const float *right = b + column * inner;
                double sum = 0;
                for (uint64_t k = 0; k < inner; k++) {
                    sum += (double)left[k] * right[k];
                }
                d[(int64_t)column * call->layout_d.leading + (int64_t)row] =
                    finished(&call->product, (int64_t)row, (int64_t)column, (float)sum);
            }
        }
        free(a);
        free(b);
    }
    if (has(&call->product, BIT_SUM)) {
        sum_output(call);
    } else if (has(&call->product, BIT_FACTOR_SUMS)) {
        sum_factor(call, inner);
    }
}

static bool
overlap(const void *left, size_t left_size, const void *right, size_t right_size)
{
    const char *one = left;
    const char *other = right;
    return one && other && one < other + right_size && other < one + left_size;
}

static size_t
matrix_size(const layout_t *layout)
{
    return element_size(layout) * (size_t)layout->columns * (size_t)layout->leading;
}

/* An epilogue writes no memory that the product reads, in whatever order it does so. */
static void
check_memory(const call_t *call)
{
    size_t d = matrix_size(&call->layout_d);
    size_t a = matrix_size(&call->layout_a);
    size_t b = matrix_size(&call->layout_b);
    cadre_assert(!overlap(call->d, d, call->a, a) && !overlap(call->d, d, call->b, b));
    if (call->product.epilogue == CUBLASLT_EPILOGUE_DEFAULT) {
        return;
    }
    bool second = call->product.epilogue == CUBLASLT_EPILOGUE_BGRADB;
    size_t bias = sizeof(float) * (second ? call->layout_d.columns : call->layout_d.rows);
    size_t mask = (size_t)call->layout_d.columns * (size_t)call->product.mask_leading / 8;
    const float *sum = call->product.bias;
    cadre_assert(!overlap(sum, bias, call->d, d) && !overlap(sum, bias, call->a, a) &&
                 !overlap(sum, bias, call->b, b));
    cadre_assert(!overlap(call->product.mask, mask, call->d, d) &&
                 !overlap(call->product.mask, mask, call->a, a) &&
                 !overlap(call->product.mask, mask, call->b, b) &&
                 !overlap(call->product.mask, mask, sum, bias));
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
    check_epilogue((const product_t *)product, (const layout_t *)layout_d);
    call_t call = {.product = *(const product_t *)product,
                   .layout_a = *(const layout_t *)layout_a,
                   .layout_b = *(const layout_t *)layout_b,
                   .layout_d = *(const layout_t *)layout_d,
                   .a = a,
                   .b = b,
                   .d = d};
    check_memory(&call);
    fake_enqueue(stream, multiply, &call, sizeof(call));
    return CUBLAS_STATUS_SUCCESS;
}
