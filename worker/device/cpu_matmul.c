/*
 * cpu_matmul - matmul through OpenBLAS. The only file that includes cblas.h, which brings the macro
 * `I` with it.
 *
 * OpenBLAS is loaded when the first CPU device of the process opens. A program that links libcadre
 * may never open one, and OpenBLAS starts a thread for each CPU when it is loaded: before main,
 * those threads would take the signals that the program blocks in order to read them.
 */
#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "common/base/status.h"
#include "worker/device/cpu.h"
#include "worker/device/element.h"

#ifdef CADRE_REAL_DOUBLE
typedef __typeof__(cblas_dgemm) gemm_t;
static const char GEMM[] = "cblas_dgemm";
#else
typedef __typeof__(cblas_sgemm) gemm_t;
static const char GEMM[] = "cblas_sgemm";
#endif
typedef __typeof__(openblas_set_num_threads) set_threads_t;

/* Of the process, as the library is: written once, under the lock, before there is a device. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gemm_t *gemm;
static set_threads_t *set_threads;

/* Sets *function_p (a pointer to a function) to the library's function of this name. */
static int
find(void *library, const char *name, void *function_p)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        return cadre_fail(CADRE_EUNAVAILABLE, "%s has no %s", CADRE_OPENBLAS, name);
    }
    memcpy(function_p, &symbol, sizeof(symbol)); /* ISO C has no cast between the two */
    return 0;
}

/* Loads OpenBLAS with every signal blocked, as its threads inherit that: signals are the
 * program's. */
static int
load(void)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    void *library = dlopen(CADRE_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!library) {
        return cadre_fail(CADRE_EUNAVAILABLE, "the CPU multiplies by OpenBLAS: %s; install it",
                          dlerror());
    }

    int status = find(library, "openblas_set_num_threads", &set_threads);
    return status < 0 ? status : find(library, GEMM, &gemm);
}

/* Loads OpenBLAS, unless this process has. Devices may be opened on several threads. */
int
cadre_cpu_load_blas(void)
{
    pthread_mutex_lock(&lock);
    int status = gemm ? 0 : load();
    pthread_mutex_unlock(&lock);
    return status;
}

void
cadre_cpu_set_threads(int threads)
{
    set_threads(threads);
}

/* Returns the bytes of scratch memory that a step needs: a product of bf16 matrices widens both to
 * f32, as most builds of OpenBLAS have no bf16; other steps need none. */
size_t
cadre_cpu_scratch_size_bytes(const cadre_plan_t *plan, const cadre_plan_step_t *step)
{
    if (step->op != CADRE_OP_MATMUL || plan->values[step->inputs[0]].dtype != CADRE_BF16) {
        return 0;
    }
    int64_t count = plan->values[step->inputs[0]].count + plan->values[step->inputs[1]].count;
    return (size_t)count * sizeof(cadre_real_t);
}

/* Multiplies matrices, or batches of them, each factor transposed if its attribute says so. */
int
cadre_cpu_matmul(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *left = operands->inputs[0];
    const cadre_plan_value_t *out = operands->out;
    const int64_t *attributes = operands->step->attributes;
    int rank = out->rank;
    CBLAS_TRANSPOSE flip_left = attributes[CADRE_MATMUL_TRANSPOSE_LEFT] ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE flip_right =
        attributes[CADRE_MATMUL_TRANSPOSE_RIGHT] ? CblasTrans : CblasNoTrans;
    blasint rows = (blasint)out->shape[rank - 2];
    blasint columns = (blasint)out->shape[rank - 1];
    blasint inner = (blasint)left->shape[flip_left == CblasTrans ? rank - 2 : rank - 1];
    blasint left_columns = (blasint)left->shape[rank - 1];
    blasint right_columns = (blasint)operands->inputs[1]->shape[rank - 1];
    int64_t out_count = (int64_t)rows * columns;
    const cadre_real_t *a = operands->data[0];
    const cadre_real_t *b = operands->data[1];
    cadre_real_t *c = operands->out_data;
    /* bf16 is widened to f32 first, the only of the two that every OpenBLAS multiplies. */
    if (left->dtype == CADRE_BF16) {
        cadre_real_t *wide = operands->scratch;
        cadre_cpu_from_bf16(wide, a, left->count);
        cadre_cpu_from_bf16(wide + left->count, b, operands->inputs[1]->count);
        a = wide;
        b = wide + left->count;
    }
    /* Leading axes are a batch of matrices, one behind the other. */
    for (int64_t batch = 0; batch < out->count / out_count; batch++) {
        gemm(CblasRowMajor, flip_left, flip_right, rows, columns, inner, 1, a, left_columns, b,
             right_columns, 0, c, columns);
        a += (int64_t)rows * inner;
        b += (int64_t)inner * columns;
        c += out_count;
    }
    return 0;
}

/* Multiplies two square matrices by OpenBLAS. */
void
cadre_cpu_multiply(const cadre_real_t *left, const cadre_real_t *right, cadre_real_t *out,
                   int width)
{
    gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, width, width, width, 1, left, width, right,
         width, 0, out, width);
}
