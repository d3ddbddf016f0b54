/*
 * drops - VARIABLES: what dropping each of many variables costs ps and coordinator
 *
 * Creates the variables, small ones, then drops them one after the other. What is spent on one must
 * not grow with how many there are. Wanted of 50,000: 500 us of either's CPU for each.
 */
#include <stdlib.h>

#include "common/base/memory.h"
#include "tests/scale/scale.h"

enum { PER_DROP_US = 500 };

static void
create(scale_cluster_t *cluster, long count, cadre_variable_t **variables)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 1;
    const int64_t shape[] = {1};
    cadre_auto(cadre_free) cadre_variable_definition_t *definitions =
        cadre_calloc((size_t)count, sizeof(*definitions));
    for (long i = 0; i < count; i++) {
        definitions[i] = (cadre_variable_definition_t){.name = cadre_asprintf("layer_%ld", i),
                                                       .dtype = CADRE_F32,
                                                       .shape = shape,
                                                       .rank = 1,
                                                       .options = &options};
    }
    scale_check(
        cadre_variable_create_many(cluster->coordinator, definitions, (size_t)count, variables),
        "variables");
    for (long i = 0; i < count; i++) {
        free((char *)definitions[i].name);
    }
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    long count = scale_number(&arguments, 0, 50000, 20000);
    scale_cluster_t cluster;
    cadre_auto(cadre_free) cadre_variable_t **variables =
        cadre_calloc((size_t)count, sizeof(cadre_variable_t *));
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.recovery = CADRE_RECOVERY_RELAXED;
    scale_cluster_open(&cluster, 1, &options);
    create(&cluster, count, variables);
    double from = scale_now();
    double cpu = scale_cpu();
    int64_t ps_ms = process_cpu_ms(cluster.ps[0]);
    for (long i = 0; i < count; i++) {
        scale_check(cadre_variable_drop(&variables[i], SCALE_WAIT_MS), "a drop");
    }
    cadre_shard_totals_t totals; /* asked after the drops, and answered behind them */
    scale_check(cadre_shard_totals(cluster.coordinator, 0, &totals, SCALE_WAIT_MS), "the counts");
    double per = 1e6 / (double)count;
    double ps_us = 1000 * (double)(process_cpu_ms(cluster.ps[0]) - ps_ms) / (double)count;
    cpu = per * (scale_cpu() - cpu);
    double took = scale_now() - from;
    scale_cluster_close(&cluster);
    return scale_verdict(ps_us <= PER_DROP_US && cpu <= PER_DROP_US,
                         "%ld variables dropped in %.1f s: %.1f us each, of the ps's CPU %.1f us, "
                         "of the coordinator's %.1f us",
                         count, took, per * took, ps_us, cpu);
}
