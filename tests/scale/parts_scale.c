/*
 * parts - PARTITIONS CLOSURES: pulls and updates with more chunks than a message holds
 *
 * One ps, one worker; each closure pulls a variable of so many partitions, a chunk each, and pushes
 * what it has pulled and a weight per element. So a chunk that is lost, comes twice, late or in
 * another's place shows in the values. Wanted of 20,000 x 10: exact values, each update once.
 */
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "tests/scale/functions.h"
#include "tests/scale/scale.h"

enum { COLUMNS = 3, CLOSURES_MAX = 14 }; /* 2^14 * 1009 is exact in f32 */

static cadre_variable_t *
create(scale_cluster_t *cluster, long partitions)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = (int)partitions;
    cadre_variable_t *w = NULL;
    scale_check(cadre_variable_create(cluster->coordinator, "w", CADRE_F32,
                                      (int64_t[]){partitions, COLUMNS}, 2, &options, &w),
                "w");
    return w;
}

/* How many elements are not what `closures` have made of them. */
static long
count_wrong(cadre_variable_t *w, long closures)
{
    long wrong = 0;
    cadre_tensor_t value = {.data = NULL};
    scale_check(cadre_variable_read(w, &value, SCALE_WAIT_MS), "a read");
    for (int64_t i = 0; i < cadre_tensor_count(&value); i++) {
        double wanted = (double)(((INT64_C(1) << closures) - 1) * scale_weight(i));
        wrong += ((const float *)value.data)[i] != (float)wanted;
    }
    cadre_tensor_fini(&value);
    return wrong;
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    long partitions = scale_number(&arguments, 0, 20000, CADRE_MESSAGE_CHUNKS_MAX + 1000);
    long closures = scale_number(&arguments, 1, 10, 4);
    require(closures <= CLOSURES_MAX, "at most 14 closures");
    scale_cluster_t cluster;
    scale_cluster_open(&cluster, 1, NULL);
    cluster.native = "../tests/scale_functions.so";
    scale_cluster_add_processes(&cluster, 1, 1);
    scale_check(cadre_coordinator_wait_ready(cluster.coordinator, 1, SCALE_WAIT_MS), "the worker");
    cadre_variable_t *w = create(&cluster, partitions);
    cadre_function_t *function = NULL;
    scale_check(cadre_function_native(cluster.coordinator, "grow", &function), "a function");
    double from = scale_now();
    for (long i = 0; i < closures; i++) {
        scale_check(
            cadre_coordinator_schedule(cluster.coordinator, function, NULL, SCALE_WAIT_MS, NULL),
            "a closure");
        scale_check(cadre_coordinator_join(cluster.coordinator, SCALE_WAIT_MS), "its end");
    }
    double took = (scale_now() - from) / (double)closures;
    long wrong = count_wrong(w, closures);
    cadre_shard_totals_t totals;
    scale_check(cadre_shard_totals(cluster.coordinator, 0, &totals, SCALE_WAIT_MS), "the counts");
    uint64_t lost = cadre_coordinator_totals(cluster.coordinator).workers_lost;
    scale_cluster_close(&cluster);
    return scale_verdict(wrong == 0 && lost == 0 && totals.applied == (uint64_t)closures &&
                             totals.duplicate == 0,
                         "%ld partitions, %ld closures: %ld elements wrong, %llu updates applied, "
                         "%llu duplicates, workers lost %llu; %.2f s each",
                         partitions, closures, wrong, (unsigned long long)totals.applied,
                         (unsigned long long)totals.duplicate, (unsigned long long)lost, took);
}
