/*
 * layer_ids - the ids that a layer looks up, as nodes of a program: which rows of its table they
 * are, and what a bag of rows makes.
 *
 * Thread: as the program's.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_LAYER_IDS_H
#define CADRE_COORDINATOR_CLI_TRAIN_LAYER_IDS_H

#include <cadre/program.h>
#include <stdint.h>

#include "coordinator/cli/train/layer.h"

/* Returns the keys that x [B, CADRE_KEY_PARTS n] has in its numbers, as i64 [B, n]. */
cadre_node_t cadre_layer_ids_join(cadre_program_t *program, cadre_node_t x);

/* Returns the ids x [B, fields], one for each field of the layer, as positions in the table of all
 * fields (cadre_layer_ids) or, where the layer has a table, as keys. What is no id becomes -1 or,
 * of keys, one below 0: both are rows of no table. Where the layer has keys of 64 bits, x is
 * [B, CADRE_KEY_PARTS fields], and whatever it is makes keys. Of a layer without fields x has any
 * shape [B, ..], with keys [B, CADRE_KEY_PARTS n], and is returned as it is where that has no
 * table. */
cadre_node_t cadre_layer_ids_place(cadre_program_t *program, const cadre_layer_t *layer,
                                   cadre_node_t x);

/* The items of rows: ids [B, L] and values [B, L], or the empty node where each is 1. */
typedef struct {
    cadre_dim_t batch; /* B */
    cadre_node_t ids;
    cadre_node_t values;
} cadre_layer_items_t;

/* Returns what a bag of the layer's combiner makes of the `rows` of its table, [B, units]: with r_i
 * the row of item i and w_i its value, the sum of w_i r_i; divided for a mean by the sum of w_i,
 * for sqrtn by the square root of that of w_i^2. What would be divided by 0 is 0. */
cadre_node_t cadre_layer_ids_bag(cadre_program_t *program, const cadre_layer_t *layer,
                                 const cadre_layer_items_t *items, cadre_node_t rows);

#endif
