#include "coordinator/cli/train/candidates.h"

#include <stddef.h>

/* Returns the vector that is the one column of `x`. */
static cadre_node_t
only_column(cadre_program_t *program, cadre_node_t x)
{
    return cadre_op_sum(program, x, -1);
}

/* Returns the logarithm of how often each candidate of the batch was trained on, and has the
 * program count those of the batch: what is pushed to a running average moves it by a share, so one
 * divided by that share moves it by one. */
static cadre_node_t
count_seen(cadre_network_t *network, cadre_node_t seen, cadre_node_t y)
{
    cadre_program_t *program = network->program;
    cadre_node_t times = cadre_op_embedding(program, seen, y);
    cadre_node_t all = cadre_op_sum_all(program, times);
    cadre_node_t share = cadre_op_const_f32(program, (float)(-1 / CADRE_NETWORK_AVERAGE_RATE));
    cadre_node_t drift = {0};
    cadre_op_gradient(program, cadre_op_mul(program, share, all), &seen, 1, &drift);
    cadre_network_set_drift(network, seen, drift);
    cadre_node_t one = cadre_op_const_f32(program, 1);
    return only_column(program, cadre_op_log(program, cadre_op_add(program, times, one)));
}

/* Returns the loss of a batch: each query against the candidates of the batch. */
static cadre_node_t
batch_loss(cadre_network_t *network, const cadre_network_candidates_t *candidates, cadre_node_t y)
{
    cadre_program_t *program = network->program;
    cadre_node_t log_q = {0};
    if (candidates->seen.id != 0) {
        log_q = count_seen(network, candidates->seen, y);
    }
    cadre_node_t rows = cadre_op_embedding(program, candidates->table, y);
    return cadre_op_in_batch_softmax(program, network->x, rows, y, log_q);
}

/* Ends the network with candidates, and gives the loss. */
int
cadre_candidates_end(cadre_network_t *network, cadre_softmax_t softmax, int64_t count,
                     cadre_node_t y, cadre_node_t *loss)
{
    cadre_network_candidates_t candidates = {.count = count,
                                             .corrected = softmax == CADRE_SOFTMAX_IN_BATCH};
    int status = cadre_network_end_candidates(network, &candidates);
    if (status < 0) {
        return status;
    }
    if (network->training) {
        *loss = batch_loss(network, &candidates, y);
        return 0;
    }
    network->x = cadre_op_matmul_transposed(network->program, network->x, 0, candidates.table, 1);
    *loss = cadre_op_softmax_cross_entropy(network->program, network->x, y);
    return 0;
}
