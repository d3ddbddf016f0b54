/*
 * weights - the variables of a network that one loop trains in place, or several at once.
 *
 * Owner:   the loops (bench/mlp.h): freed with the last that drops it.
 * Thread:  take and apply may be called by every loop's thread at once, the others by main's.
 *
 * One loop reads the values where they are and applies its gradients in place. Several have one set
 * of values more than loops: each reads the newest set, without copying it, and whoever applies
 * writes to a set that nobody reads. So no value changes while it is read, and a loop waits for
 * another only while that one applies.
 */
#ifndef CADRE_BENCH_WEIGHTS_H
#define CADRE_BENCH_WEIGHTS_H

#include <cadre/program.h>

#include "ps/core/values/optimizer.h"

typedef struct cadre_bench_weights cadre_bench_weights_t;

/* Makes the variables of `program` for so many loops, each of which holds it, with weights that are
 * drawn and biases of 0. */
cadre_bench_weights_t *cadre_bench_weights_new(const cadre_program_t *program,
                                               const cadre_ps_optimizer_t *optimizer, int loops);

/* Lets one loop go of it. */
void cadre_bench_weights_drop(cadre_bench_weights_t **self_p);

/* Returns the numbers of a variable, by its place in the program. */
size_t cadre_bench_weights_count(const cadre_bench_weights_t *self, int variable);

/* Gives the newest values of each variable, which stay as they are until the loop applies. Returns
 * the number of their set. */
int cadre_bench_weights_take(cadre_bench_weights_t *self, const void **values);

/* Lets go of the set that the loop took, and applies a gradient of each variable to the newest. */
void cadre_bench_weights_apply(cadre_bench_weights_t *self, int set, float *const *gradients);

#endif
