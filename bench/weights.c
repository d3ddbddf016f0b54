#include "bench/weights.h"

#include <pthread.h>
#include <stdlib.h>

#include "bench/mlp.h"
#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/graph/program.h"

typedef struct {
    size_t count; /* numbers */
    float *slots[CADRE_OPTIMIZER_SLOTS_MAX];
} variable_t;

typedef struct {
    float *values[CADRE_BENCH_VARIABLES_MAX];
    int readers;
} set_t;

struct cadre_bench_weights {
    pthread_mutex_t lock;
    cadre_ps_optimizer_t optimizer;
    uint64_t step;
    variable_t variables[CADRE_BENCH_VARIABLES_MAX]; /* in the program's order */
    int variable_count;
    set_t *sets;
    int set_count;
    int newest;
    int loops; /* that have not dropped it */
};

cadre_bench_weights_t *
cadre_bench_weights_new(const cadre_program_t *program, const cadre_ps_optimizer_t *optimizer,
                        int loops)
{
    cadre_bench_weights_t *self = cadre_calloc(1, sizeof(*self));
    pthread_mutex_init(&self->lock, NULL);
    self->optimizer = *optimizer;
    self->loops = loops;
    self->set_count = loops > 1 ? loops + 1 : 1;
    self->sets = cadre_calloc((size_t)self->set_count, sizeof(*self->sets));
    self->variable_count = cadre_program_variable_count(program);
    for (int i = 0; i < self->variable_count; i++) {
        const cadre_program_variable_t *about = cadre_program_variable(program, i);
        variable_t *variable = &self->variables[i];
        variable->count = (size_t)(about->shape[0] * (about->rank > 1 ? about->shape[1] : 1));
        for (size_t slot = 0; slot < optimizer->slot_count; slot++) {
            variable->slots[slot] = cadre_calloc(variable->count, sizeof(float));
        }
        for (int set = 0; set < self->set_count; set++) {
            self->sets[set].values[i] = cadre_aligned_alloc(variable->count * sizeof(float));
        }

        float *values = self->sets[self->newest].values[i];
        cadre_random_fill_normal(1, (uint64_t)i, 0, variable->count, values);
        for (size_t k = 0; k < variable->count; k++) {
            values[k] *= about->rank > 1 ? 0.1F : 0;
        }
    }

    return self;
}

void
cadre_bench_weights_drop(cadre_bench_weights_t **self_p)
{
    cadre_bench_weights_t *self = *self_p;
    *self_p = NULL;
    if (!self || --self->loops > 0) {
        return;
    }

    for (int i = 0; i < self->variable_count; i++) {
        for (size_t slot = 0; slot < CADRE_OPTIMIZER_SLOTS_MAX; slot++) {
            free(self->variables[i].slots[slot]);
        }
        for (int set = 0; set < self->set_count; set++) {
            free(self->sets[set].values[i]);
        }
    }

    pthread_mutex_destroy(&self->lock);
    free(self->sets);
    free(self);
}

size_t
cadre_bench_weights_count(const cadre_bench_weights_t *self, int variable)
{
    cadre_assert(variable < self->variable_count);
    return self->variables[variable].count;
}

int
cadre_bench_weights_take(cadre_bench_weights_t *self, const void **values)
{
    pthread_mutex_lock(&self->lock);
    int set = self->newest;
    self->sets[set].readers++;
    pthread_mutex_unlock(&self->lock);

    for (int i = 0; i < self->variable_count; i++) {
        values[i] = self->sets[set].values[i];
    }
    return set;
}

/* Returns the set that is written next: the only one, or another than the newest that nobody
 * reads. There is one, as the loop that applies reads none. */
static int
next_set(const cadre_bench_weights_t *self)
{
    if (self->set_count == 1) {
        return 0;
    }

    int set = 0;
    while (set == self->newest || self->sets[set].readers > 0) {
        set++;
        cadre_assert(set < self->set_count);
    }
    return set;
}

void
cadre_bench_weights_apply(cadre_bench_weights_t *self, int set, float *const *gradients)
{
    pthread_mutex_lock(&self->lock);
    self->sets[set].readers--;
    const int next = next_set(self);
    self->step++;
    for (int i = 0; i < self->variable_count; i++) {
        const variable_t *variable = &self->variables[i];
        cadre_optimizer_span_t span = {.count = variable->count,
                                       .gradient = gradients[i],
                                       .value_in = self->sets[self->newest].values[i],
                                       .value_out = self->sets[next].values[i]};
        for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
            span.slots_in[slot] = variable->slots[slot];
            span.slots_out[slot] = variable->slots[slot];
        }
        cadre_optimizer_apply(&self->optimizer, self->step, &span);
    }

    self->newest = next;
    pthread_mutex_unlock(&self->lock);
}
