/*
 * candidates - the end of a model that retrieves: a row of a table for each class, a candidate, and
 * as its score the product with what the layers make of a row, a query.
 *
 * Training compares a query with the candidates of its batch alone (cadre_op_in_batch_softmax); an
 * evaluation with all of them.
 *
 * Owner:   whoever builds the program.
 * Thread:  one at a time.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_CANDIDATES_H
#define CADRE_COORDINATOR_CLI_TRAIN_CANDIDATES_H

#include "coordinator/cli/train/network.h"

/* How a model of classes ends: name, word in job files. */
#define CADRE_SOFTMAX_LIST(X)                                                                      \
    X(FULL, full)                                                                                  \
    X(IN_BATCH, in_batch)                                                                          \
    X(IN_BATCH_UNCORRECTED, in_batch_uncorrected)

typedef enum {
#define X(NAME, word) CADRE_SOFTMAX_##NAME,
    CADRE_SOFTMAX_LIST(X)
#undef X
} cadre_softmax_t;

#define CADRE_SOFTMAX_WORDS CADRE_LIST_WORDS(CADRE_SOFTMAX_LIST)

/* Ends the network with `count` candidates, and gives the loss for the candidates `y` [B]. Of a
 * program that evaluates, network->x is then the scores [B, count]. With CADRE_SOFTMAX_IN_BATCH a
 * score is corrected by how often its candidate was trained on: the variable seen<i> counts that.
 * Fails as cadre_network_end. */
int cadre_candidates_end(cadre_network_t *network, cadre_softmax_t softmax, int64_t count,
                         cadre_node_t y, cadre_node_t *loss);

#endif
