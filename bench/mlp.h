/*
 * mlp - the network of examples/digits.json: 64-128-10, relu, batches of 32, adam at 0.003; and its
 * training inside one process, without coordinator, ps or workers.
 *
 * Owner:   the training section.
 * Thread:  main's.
 */
#ifndef CADRE_BENCH_MLP_H
#define CADRE_BENCH_MLP_H

#include <cadre/program.h>

enum {
    CADRE_BENCH_MLP_FEATURES = 64,
    CADRE_BENCH_MLP_HIDDEN = 128,
    CADRE_BENCH_MLP_CLASSES = 10,
    CADRE_BENCH_MLP_BATCH = 32,
    CADRE_BENCH_MLP_VARIABLES = 4,
};

#define CADRE_BENCH_MLP_RATE 0.003

typedef struct {
    const char *name;
    int rank;
    int64_t shape[2];
} cadre_bench_mlp_variable_t;

extern const cadre_bench_mlp_variable_t cadre_bench_mlp_variables[CADRE_BENCH_MLP_VARIABLES];

/* One step on a batch "x", "y", with the result "loss"; finished. */
int cadre_bench_mlp_program(cadre_program_t **out);

/* The JSON description of the data in `path`, freed by the caller. */
char *cadre_bench_mlp_data(const char *path);

typedef struct cadre_bench_mlp cadre_bench_mlp_t;

/* The whole of it in this process. */
int cadre_bench_mlp_open(const char *path, cadre_bench_mlp_t **out);
void cadre_bench_mlp_close(cadre_bench_mlp_t **self_p);

/* Trains `epochs` epochs, shuffled; `examples` is how many rows that were. */
int cadre_bench_mlp_train(cadre_bench_mlp_t *self, int epochs, int64_t *examples);

#endif
