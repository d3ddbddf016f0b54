/*
 * link - MIB WORKERS CLOSURES MB_S: how much of a slow link pulls and pushes of everything use
 *
 * One ps behind a link of MB_S in each direction that all workers share (slow_link.h); each closure
 * pulls a variable of MIB and pushes as much. The link's share is that of the closures between the
 * first that ends and the last: what is before is one pull and one push with nothing beside them.
 * Wanted of 32 x 4 over 40 MB/s: 90 % of the link, each value pulled and pushed once. The small
 * form is judged by its counts, and by a bound for a machine that does much else.
 */
#include "common/base/memory.h"
#include "tests/scale/scale.h"
#include "tests/scale/slow_link.h"

enum { PERCENT = 90, PERCENT_SHORT = 10, COLUMNS = 262144, MIB = 1 << 20 };

static void
create(scale_cluster_t *cluster, long mib)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_SGD);
    cadre_variable_t *w = NULL;
    scale_check(cadre_variable_create(cluster->coordinator, "w", CADRE_F32,
                                      (int64_t[]){mib, COLUMNS}, 2, &options, &w),
                "w");
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    long mib = scale_number(&arguments, 0, 32, 8);
    int workers = (int)scale_number(&arguments, 1, 4, 4);
    uint64_t closures = (uint64_t)scale_number(&arguments, 2, 40, 16);
    long rate = scale_number(&arguments, 3, 40, 40);
    scale_cluster_t cluster;
    scale_cluster_open(&cluster, 1, NULL);
    cadre_auto(cadre_free) char *path = scratch_path(&cluster.scratch, "ps-0");
    slow_link_t *link = slow_link_open(path, (uint64_t)rate * 1000000);
    cluster.native = "../tests/scale_functions.so";
    scale_cluster_add_processes(&cluster, workers, 1);
    scale_check(cadre_coordinator_wait_ready(cluster.coordinator, workers, SCALE_WAIT_MS),
                "the workers");
    create(&cluster, mib);
    cadre_function_t *function = NULL;
    scale_check(cadre_function_native(cluster.coordinator, "move_all", &function), "a function");
    double from = scale_now();
    for (uint64_t i = 0; i < closures; i++) {
        scale_check(
            cadre_coordinator_schedule(cluster.coordinator, function, NULL, SCALE_WAIT_MS, NULL),
            "a closure");
    }
    double first = scale_await_finished(&cluster, 1);
    double last = scale_await_finished(&cluster, closures);
    scale_check(cadre_coordinator_join(cluster.coordinator, SCALE_WAIT_MS),
                "the end of the closures");
    cadre_shard_totals_t totals;
    scale_check(cadre_shard_totals(cluster.coordinator, 0, &totals, SCALE_WAIT_MS), "the counts");
    double up = (double)slow_link_up_bytes(link) / (double)(closures * (uint64_t)mib * MIB);
    double down = (double)slow_link_down_bytes(link) / (double)(closures * (uint64_t)mib * MIB);
    double takes = (double)mib * MIB / ((double)rate * 1e6);
    double share = 100 * (double)(closures - 1) * takes / (last - first);
    int percent = arguments.is_short ? PERCENT_SHORT : PERCENT;
    bool once = totals.applied == closures && totals.duplicate == 0 && up < 1.05 && down < 1.05;
    scale_cluster_close(&cluster);
    slow_link_close(&link);
    return scale_verdict(
        once && share >= percent,
        "%ld MiB, %d workers, a link of %ld MB/s: %.1f %% of it from the first "
        "end on, %.1f %% with the first; %llu closures in %.1f s, %llu duplicates; "
        "bytes up x %.3f, down x %.3f of what is needed",
        mib, workers, rate, share, 100 * (double)closures * takes / (last - from),
        (unsigned long long)closures, last - from, (unsigned long long)totals.duplicate, up, down);
}
