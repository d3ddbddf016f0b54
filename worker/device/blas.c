/* The only file that includes cblas.h, which brings the macro `I` with it. */
#include "worker/device/blas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/status.h"

#ifdef CADRE_REAL_DOUBLE
typedef __typeof__(cblas_dgemm) gemm_t;
static const char GEMM[] = "cblas_dgemm";
#else
typedef __typeof__(cblas_sgemm) gemm_t;
static const char GEMM[] = "cblas_sgemm";
#endif

static const char CHOICE[] = "OPENBLAS_CORETYPE";
static const char FALLBACK[] = "Prescott"; /* for processors that OpenBLAS does not know */

typedef struct {
    gemm_t *gemm;
    __typeof__(openblas_get_num_threads) *get_threads;
    __typeof__(openblas_set_num_threads) *set_threads;
    __typeof__(openblas_get_corename) *kernels;
} blas_t;

/* Of the process, as the library is: written once, under the lock, before there is a device. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static blas_t blas;

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

/* Opens the library with every signal blocked, as its threads inherit that: signals are the
 * program's. */
static int
open_library(void **library)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    *library = dlopen(CADRE_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!*library) {
        return cadre_fail(CADRE_EUNAVAILABLE, "the CPU multiplies by OpenBLAS: %s; install it",
                          dlerror());
    }
    return 0;
}

/* Opens the library and finds its functions. */
static int
open_blas(void **library, blas_t *out)
{
    int status = open_library(library);
    status = status < 0 ? status : find(*library, "openblas_get_num_threads", &out->get_threads);
    status = status < 0 ? status : find(*library, "openblas_set_num_threads", &out->set_threads);
    status = status < 0 ? status : find(*library, "openblas_get_corename", &out->kernels);
    return status < 0 ? status : find(*library, GEMM, &out->gemm);
}

/* Returns the kernels for this processor by OpenBLAS' name; NULL where it has none better than its
 * fallback. */
static const char *
fit_kernels(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        return "SkylakeX";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "Haswell";
    }
#endif
    return NULL;
}

/* Loads OpenBLAS, and once more where it fell back and this processor can do better. A library that
 * the program has linked itself stays as it is. */
static int
load(void)
{
    void *library = NULL;
    blas_t found = {0};
    int status = open_blas(&library, &found);
    if (status < 0) {
        return status;
    }
    const char *fit = getenv(CHOICE) ? NULL : fit_kernels();
    if (fit && strcmp(found.kernels(), FALLBACK) == 0 && setenv(CHOICE, fit, 1) == 0) {
        dlclose(library);
        status = open_blas(&library, &found);
        unsetenv(CHOICE);
    }
    if (status == 0) {
        blas = found;
    }
    return status;
}

int
cadre_blas_load(void)
{
    pthread_mutex_lock(&lock);
    int status = blas.gemm ? 0 : load();
    pthread_mutex_unlock(&lock);
    return status;
}

const char *
cadre_blas_kernels(void)
{
    return blas.kernels();
}

int
cadre_blas_set_threads(int threads)
{
    int before = blas.get_threads();
    blas.set_threads(threads);
    return before;
}

void
cadre_blas_multiply(const cadre_blas_product_t *product, const cadre_real_t *left,
                    const cadre_real_t *right, cadre_real_t *out)
{
    CBLAS_TRANSPOSE flip_left = product->transpose_left ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE flip_right = product->transpose_right ? CblasTrans : CblasNoTrans;
    blas.gemm(CblasRowMajor, flip_left, flip_right, product->m, product->n, product->inner, 1, left,
              product->transpose_left ? product->m : product->inner, right,
              product->transpose_right ? product->inner : product->n, 0, out, product->n);
}
