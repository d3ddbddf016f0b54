/*
 * inner_optimizer - the optimizer that a closure of local steps runs itself, as nodes of its
 * program.
 *
 * Formulas are those of ps/core/values/optimizer.h, for sgd, momentum, nesterov, adam and adamw.
 * Slots begin at 0 with each closure, and t, the number of the step, at 1.
 *
 *     cadre_inner_optimizer_begin(&optimizer, program, &spec);
 *     for each step:
 *         cadre_inner_optimizer_step(&optimizer);
 *         for each variable:
 *             value = cadre_inner_optimizer_apply(&optimizer, value, gradient, &slots);
 *
 * Owner:   whoever builds the program.
 * Thread:  one at a time.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_INNER_OPTIMIZER_H
#define CADRE_COORDINATOR_CLI_TRAIN_INNER_OPTIMIZER_H

#include <stdbool.h>

#include <cadre/program.h>

#include "common/spec/optimizer_spec.h"

#define CADRE_INNER_OPTIMIZER_WORDS "sgd, momentum, nesterov, adam and adamw"

typedef struct {
    cadre_program_t *program;
    cadre_optimizer_spec_t spec;
    int step;                   /* number of the present step, from 1; 0: none so far */
    cadre_node_t rate;          /* learning rate; adam, adamw: of this step, with bias correction */
    cadre_node_t momentum;      /* of momentum and nesterov */
    cadre_node_t beta_rests[2]; /* 1 - beta_1 and 1 - beta_2 of adam and adamw */
    cadre_node_t epsilon;
    cadre_node_t kept; /* adamw: factor by which a step shrinks a value, 1 - weight_decay lr */
} cadre_inner_optimizer_t;

/* What the optimizer keeps of one variable between steps, of its shape; zeroed before the first. */
typedef struct {
    cadre_node_t moments[2];
} cadre_inner_slots_t;

/* Returns whether this kind of optimizer can be built of nodes. */
bool cadre_inner_optimizer_has(cadre_optimizer_kind_t kind);

/* Begins before the first step. cadre_inner_optimizer_has must be true for the spec's kind. */
void cadre_inner_optimizer_begin(cadre_inner_optimizer_t *self, cadre_program_t *program,
                                 const cadre_optimizer_spec_t *spec);

/* Goes on to the next step, for all variables. */
void cadre_inner_optimizer_step(cadre_inner_optimizer_t *self);

/* Returns the value of a variable after this step, by its gradient of the same shape. `slots`:
 * those of the variable, which this updates. */
cadre_node_t cadre_inner_optimizer_apply(const cadre_inner_optimizer_t *self, cadre_node_t value,
                                         cadre_node_t gradient, cadre_inner_slots_t *slots);

#endif
