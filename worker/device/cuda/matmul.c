#include "worker/device/cuda/matmul.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "worker/device/arena.h"

struct cadre_cuda_matmul {
    const cadre_lane_t *lane;
    size_t out_size_bytes;
    bool empty; /* the inner dimension is 0: the product is all zeros */
    bool has_epilogue;
    bool has_mask;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t first;  /* of our right operand, which cuBLAS calls A */
    cublasLtMatrixLayout_t second; /* of our left operand, which cuBLAS calls B */
    cublasLtMatrixLayout_t out;
    cublasLtMatmulAlgo_t algorithm;
};

/* The sizes of a product of row-major matrices: out [m,n] = left [m,k] right [k,n], each factor
 * possibly stored transposed. */
typedef struct {
    uint64_t m;
    uint64_t n;
    uint64_t k;
    int32_t batches;
    bool flip_left;
    bool flip_right;
    cudaDataType_t operands; /* the type of both operands */
} sizes_t;

/* Returns the sizes of a MATMUL step: out [m,n] = left [m,k] right [k,n], for each matrix of a
 * batch. */
static sizes_t
find_sizes(const cadre_plan_t *plan, const cadre_plan_step_t *step)
{
    const cadre_plan_value_t *left = &plan->values[step->inputs[0]];
    const cadre_plan_value_t *out = &plan->values[step->output];
    sizes_t sizes = {.flip_left = step->attributes[CADRE_MATMUL_TRANSPOSE_LEFT] != 0,
                     .flip_right = step->attributes[CADRE_MATMUL_TRANSPOSE_RIGHT] != 0};
    sizes.m = (uint64_t)out->shape[out->rank - 2];
    sizes.n = (uint64_t)out->shape[out->rank - 1];
    sizes.k = (uint64_t)left->shape[sizes.flip_left ? left->rank - 2 : left->rank - 1];
    sizes.operands = left->dtype == CADRE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    uint64_t each = sizes.m * sizes.n;
    sizes.batches = each > 0 ? (int32_t)((uint64_t)out->count / each) : 0;
    return sizes;
}

/* Describes a row-major matrix [rows, columns] to cuBLAS, as a column-major [columns, rows]. */
static int
make_layout(cudaDataType_t type, uint64_t rows, uint64_t columns, const sizes_t *sizes,
            cublasLtMatrixLayout_t *out)
{
    int64_t stride = (int64_t)(rows * columns);
    CADRE_CUBLAS_TRY(cublasLtMatrixLayoutCreate(out, type, columns, rows, (int64_t)columns));
    CADRE_CUBLAS_TRY(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                      &sizes->batches, sizeof(sizes->batches)));
    CADRE_CUBLAS_TRY(cublasLtMatrixLayoutSetAttribute(
        *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
    return 0;
}

/* Describes the product to cuBLAS. cuBLAS reads row-major matrices as their transposes, so left and
 * right change places: our right operand is its first. */
static int
describe(cadre_cuda_matmul_t *self, const sizes_t *sizes)
{
    cublasOperation_t flip_first = sizes->flip_right ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t flip_second = sizes->flip_left ? CUBLAS_OP_T : CUBLAS_OP_N;
    /* lane->math says how f32 operands are rounded; it has no meaning for bf16 ones. */
    bool wide = sizes->operands == CUDA_R_32F;
    CADRE_CUBLAS_TRY(cublasLtMatmulDescCreate(
        &self->product, wide ? self->lane->math : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CADRE_CUBLAS_TRY(cublasLtMatmulDescSetAttribute(self->product, CUBLASLT_MATMUL_DESC_TRANSA,
                                                    &flip_first, sizeof(flip_first)));
    CADRE_CUBLAS_TRY(cublasLtMatmulDescSetAttribute(self->product, CUBLASLT_MATMUL_DESC_TRANSB,
                                                    &flip_second, sizeof(flip_second)));
    int status = make_layout(sizes->operands, sizes->flip_right ? sizes->n : sizes->k,
                             sizes->flip_right ? sizes->k : sizes->n, sizes, &self->first);
    if (status < 0) {
        return status;
    }

    status = make_layout(sizes->operands, sizes->flip_left ? sizes->k : sizes->m,
                         sizes->flip_left ? sizes->m : sizes->k, sizes, &self->second);
    if (status < 0) {
        return status;
    }

    return make_layout(CUDA_R_32F, sizes->m, sizes->n, sizes, &self->out);
}

/* Sets an attribute of a product's description. */
static int
set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const void *value,
    size_t size_bytes)
{
    CADRE_CUBLAS_TRY(cublasLtMatmulDescSetAttribute(product, attribute, value, size_bytes));
    return 0;
}

/* Sets where the epilogue finds bias and mask in this run. */
static int
set_pointers(const cadre_cuda_matmul_t *self, const void *bias, const void *mask)
{
    int status =
        set(self->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, (const void *)&bias, sizeof(bias));
    if (status < 0 || !self->has_mask) {
        return status;
    }

    return set(self->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, (const void *)&mask,
               sizeof(mask));
}

/* Sets the epilogue. cuBLAS's heuristic takes the alignment of bias and mask from their pointers,
 * which are not known yet: any aligned pointer serves. */
static int
describe_epilogue(cadre_cuda_matmul_t *self, const cadre_cuda_epilogue_t *epilogue)
{
    const void *aligned = (const void *)(uintptr_t)CADRE_ARENA_ALIGNMENT;
    self->has_epilogue = true;
    self->has_mask = epilogue->mask_row_bits > 0;
    int status =
        set(self->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue->kind, sizeof(epilogue->kind));
    if (status < 0) {
        return status;
    }

    status = set_pointers(self, aligned, aligned);
    if (status < 0 || !self->has_mask) {
        return status;
    }

    return set(self->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &epilogue->mask_row_bits,
               sizeof(epilogue->mask_row_bits));
}

/* Takes the first choice of cuBLAS's heuristic, without algorithms that add parts of a sum in an
 * order that varies: so the same run gives the same bits. CADRE_ENOTFOUND when cuBLAS has no such
 * product with an epilogue, whose steps can run one by one instead. */
static int
choose(cadre_cuda_matmul_t *self, cublasLtMatmulPreference_t preference, const sizes_t *sizes)
{
    size_t workspace = CADRE_LANE_WORKSPACE_SIZE;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    CADRE_CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)));
    CADRE_CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof(reductions)));
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasStatus_t error =
        cublasLtMatmulAlgoGetHeuristic(self->lane->cublas, self->product, self->first, self->second,
                                       self->out, self->out, preference, 1, &found, &count);
    if (error != CUBLAS_STATUS_SUCCESS || count < 1) {
        return cadre_fail(self->has_epilogue ? CADRE_ENOTFOUND : CADRE_EDEVICE,
                          "cublasLt has no algorithm for %" PRId32 " times [%" PRIu64 ",%" PRIu64
                          "] by [%" PRIu64 ",%" PRIu64 "]: %s",
                          sizes->batches, sizes->m, sizes->k, sizes->k, sizes->n,
                          cublasLtGetStatusName(error));
    }
    self->algorithm = found.algo;
    return 0;
}

/* Has cuBLAS choose an algorithm for the product, once, when the plan is made ready. */
static int
choose_algorithm(cadre_cuda_matmul_t *self, const sizes_t *sizes)
{
    cublasLtMatmulPreference_t preference = NULL;
    CADRE_CUBLAS_TRY(cublasLtMatmulPreferenceCreate(&preference));
    int status = choose(self, preference, sizes);
    cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* Prepares a MATMUL step, with an epilogue unless that is NULL; only a single product that is not
 * empty has one. A product whose inner dimension is 0 is all zeros, and needs no algorithm. */
int
cadre_cuda_matmul_new(const cadre_lane_t *lane, const cadre_plan_t *plan,
                      const cadre_plan_step_t *step, const cadre_cuda_epilogue_t *epilogue,
                      cadre_cuda_matmul_t **out)
{
    sizes_t sizes = find_sizes(plan, step);
    cadre_auto(cadre_cuda_matmul_destroy) cadre_cuda_matmul_t *self =
        cadre_calloc(1, sizeof(*self));
    self->lane = lane;
    self->out_size_bytes = plan->values[step->output].size_bytes;
    self->empty = sizes.k == 0 || sizes.batches == 0;
    int status = self->empty ? 0 : describe(self, &sizes);
    if (status == 0 && epilogue) {
        cadre_assert(!self->empty && sizes.batches == 1);
        status = describe_epilogue(self, epilogue);
    }
    status = status < 0 || self->empty ? status : choose_algorithm(self, &sizes);
    if (status < 0) {
        return status;
    }
    *out = self;
    self = NULL;
    return 0;
}

/* Frees the product's descriptions. */
void
cadre_cuda_matmul_destroy(cadre_cuda_matmul_t **self_p)
{
    cadre_cuda_matmul_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cublasLtMatrixLayout_t layouts[] = {self->first, self->second, self->out};
    for (size_t i = 0; i < CADRE_COUNT_OF(layouts); i++) {
        if (layouts[i]) {
            cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
    if (self->product) {
        cublasLtMatmulDescDestroy(self->product);
    }
    free(self);
}

/* Enqueues the product with its epilogue. Left and right change places, since cuBLAS reads
 * row-major matrices as their transposes. */
int
cadre_cuda_matmul_run(const cadre_cuda_matmul_t *self, const cadre_cuda_factors_t *factors,
                      cudaStream_t stream)
{
    if (self->empty) {
        CADRE_CUDA_TRY(cudaMemsetAsync(factors->out, 0, self->out_size_bytes, stream));
        return 0;
    }
    int status = self->has_epilogue ? set_pointers(self, factors->bias, factors->mask) : 0;
    if (status < 0) {
        return status;
    }
    const float one = 1;
    const float zero = 0;
    CADRE_CUBLAS_TRY(cublasLtMatmul(self->lane->cublas, self->product, &one, factors->right,
                                    self->first, factors->left, self->second, &zero, factors->out,
                                    self->out, factors->out, self->out, &self->algorithm,
                                    self->lane->workspace, CADRE_LANE_WORKSPACE_SIZE, stream));
    return 0;
}
