/*
 * mlp - networks of dense layers with relu and cross entropy, and their training inside one
 * process, without coordinator, ps or workers.
 *
 * Owner:   the sections training, local and loops.
 * Thread:  main's; loops that train at once have one each while they do.
 */
#ifndef CADRE_BENCH_MLP_H
#define CADRE_BENCH_MLP_H

#include <cadre/coordinator.h>
#include <stdbool.h>

#include "bench/bench.h"

enum {
    CADRE_BENCH_LAYERS_MAX = 3,
    CADRE_BENCH_VARIABLES_MAX = 2 * CADRE_BENCH_LAYERS_MAX,
};

typedef struct {
    const char *name;
    int layers;
    int64_t widths[CADRE_BENCH_LAYERS_MAX + 1]; /* of rows, of each layer's output */
    int64_t batch;
    cadre_optimizer_kind_t optimizer;
    const char *optimizer_name;
    double rate;
} cadre_bench_network_t;

extern const cadre_bench_network_t cadre_bench_digits; /* of examples/digits.json: adam */
extern const cadre_bench_network_t cadre_bench_wide;   /* 784-512-512-10 with sgd */

/* Makes one step on a batch "x", "y", with the result "loss"; finished. Its variables are w1, b1,
 * w2 and so on. */
int cadre_bench_mlp_program(const cadre_bench_network_t *network, cadre_program_t **out);

/* Makes a program of `steps` local steps on rows [steps * batch, width], as training.local_steps of
 * a job file makes it: steps of the network's optimizer, then a push of how far they led. */
int cadre_bench_mlp_local_program(const cadre_bench_network_t *network, int steps,
                                  cadre_program_t **out);

/* Creates the network's variables with a coordinator. Their optimizer is the network's or, for
 * local steps, which have that one inside, sgd with a rate of 1. */
int cadre_bench_mlp_create(const cadre_bench_network_t *network, bool has_local_steps,
                           cadre_coordinator_t *coordinator);

/* Trains `epochs` epochs by closures, from `epoch` on, and joins; `examples` is how many rows that
 * were. */
int cadre_bench_mlp_schedule(const cadre_bench_network_t *network, cadre_dataset_t *data,
                             const cadre_function_t *step, uint64_t *epoch, int epochs,
                             int64_t *examples);

/* A job that trains a network. */
typedef struct {
    cadre_coordinator_t *coordinator;
    cadre_function_t *function; /* what its closures run */
    int steps;                  /* local steps of a closure */
    cadre_dataset_t *data;
    uint64_t epoch; /* the next one */
} cadre_bench_job_t;

/* Trains `epochs` epochs by closures of local steps, and joins. Rows at the end of an epoch that do
 * not fill a closure are left out; `examples` is how many rows the others were. */
int cadre_bench_mlp_schedule_local(const cadre_bench_network_t *network, cadre_bench_job_t *job,
                                   int epochs, int64_t *examples);

/* The JSON description of the CSV file `path`, freed by the caller. */
char *cadre_bench_mlp_csv(const char *path);

/* Writes `rows` rows for the wide network as IDX files into `folder`, whose labels can be learned:
 * which of the first ten numbers is the largest. Gives their description, freed by the caller. */
int cadre_bench_mlp_write_rows(const char *folder, int rows, char **description);

/* Removes them. */
void cadre_bench_mlp_remove_rows(const char *folder);

typedef struct cadre_bench_mlp cadre_bench_mlp_t;

/* A plain loop in this process, on data as described; its device has so many threads. */
int cadre_bench_mlp_open(const cadre_bench_network_t *network, const char *description, int threads,
                         cadre_bench_mlp_t **out);

/* Opens `count` loops that train one set of weights (bench/weights.h), each with every count-th
 * batch of an epoch and with a device of so many threads. On failure none is left open. */
int cadre_bench_mlp_open_team(const cadre_bench_network_t *network, const char *description,
                              int threads, int count, cadre_bench_mlp_t **loops);

void cadre_bench_mlp_close(cadre_bench_mlp_t **self_p);

/* Trains `epochs` epochs, shuffled; `examples` is how many rows that were. */
int cadre_bench_mlp_train(cadre_bench_mlp_t *self, int epochs, int64_t *examples);

/* Trains `count` loops at once, each on a thread of its own; `examples` is how many rows that were
 * of all. */
int cadre_bench_mlp_train_all(cadre_bench_mlp_t **loops, int count, int epochs, int64_t *examples);

/* Measures one network on data as described, and adds its figures to the report. */
typedef int cadre_bench_network_measure_t(cadre_bench_t *bench,
                                          const cadre_bench_network_t *network, int epochs,
                                          const char *description);

/* How many epochs a run of each network has, without --quick. */
typedef struct {
    int digits;
    int wide;
} cadre_bench_epochs_t;

/* Measures both networks, one after the other: digits on bench->digits, the wide one on rows that
 * are made for it and removed afterwards. */
int cadre_bench_mlp_each(cadre_bench_t *bench, const cadre_bench_epochs_t *epochs,
                         cadre_bench_network_measure_t *measure);

#endif
