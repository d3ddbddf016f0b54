/*
 * cpu_pool_test - several slots' threads share one pool: each loop runs each of its iterations once
 * and has all of them done when it returns, and ThreadSanitizer sees no race.
 */
#include "worker/device/cpu_pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLERS = 3, THREADS = 4, ROUNDS = 2000, COUNT = 257, POOLS = 20 };

/* Plain numbers: that nobody reads them while another writes is what is tested. */
typedef struct {
    int64_t from[COUNT];
    int64_t to[COUNT];
} numbers_t;

static void
expect(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "failed: %s\n", what);
        abort();
    }
}

static void
add_part(const void *context, int64_t begin, int64_t end)
{
    numbers_t *numbers = (numbers_t *)(uintptr_t)context;
    for (int64_t i = begin; i < end; i++) {
        numbers->to[i] += numbers->from[i];
    }
}

static void *
run_caller(void *argument)
{
    cadre_cpu_pool_t *pool = argument;
    numbers_t *numbers = calloc(1, sizeof(*numbers));
    expect(numbers != NULL, "memory");
    for (int64_t round = 1; round <= ROUNDS; round++) {
        for (int64_t i = 0; i < COUNT; i++) {
            numbers->from[i] = i + round;
        }
        cadre_cpu_pool_run(pool, COUNT, 1 + round % 20, add_part, numbers);
        for (int64_t i = 0; i < COUNT; i++) {
            expect(numbers->to[i] == round * i + round * (round + 1) / 2, "each iteration once");
        }
    }
    free(numbers);
    return NULL;
}

int
main(void)
{
    cadre_cpu_pool_t *pool = cadre_cpu_pool_new(THREADS);
    pthread_t callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        expect(pthread_create(&callers[i], NULL, run_caller, pool) == 0, "a thread");
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i], NULL);
    }
    cadre_cpu_pool_destroy(&pool);
    for (int i = 0; i < POOLS; i++) { /* ended while its threads begin */
        pool = cadre_cpu_pool_new(THREADS);
        cadre_cpu_pool_destroy(&pool);
    }
    return 0;
}
