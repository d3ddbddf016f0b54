/*
 * inner_optimizer - which optimizers a program can run itself, in local steps: those that
 * cadre_op_inner_step (<cadre/program.h>, which has the formulas) can build of nodes.
 *
 * Owner:   none; there is no state. Thread: any one.
 */
#ifndef CADRE_COMMON_GRAPH_INNER_OPTIMIZER_H
#define CADRE_COMMON_GRAPH_INNER_OPTIMIZER_H

#include <stdbool.h>

#include <cadre/program.h>

#define CADRE_INNER_OPTIMIZER_WORDS "sgd, momentum, nesterov, adam and adamw"

/* Returns whether this kind of optimizer can be built of nodes. */
bool cadre_inner_optimizer_has(cadre_optimizer_kind_t kind);

#endif
