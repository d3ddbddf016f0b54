/*
 * read - MIB TIMES: how often a large variable is pulled for one read, and what memory it takes
 *
 * The coordinator reads one variable of MIB. Wanted of 1,500: one PULL for each read.
 */
#include "common/base/memory.h"
#include "tests/scale/scale.h"

enum { COLUMNS = 262144 };

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    long mib = scale_number(&arguments, 0, 1500, 200);
    int times = (int)scale_number(&arguments, 1, 3, 3);
    scale_cluster_t cluster;
    scale_cluster_open(&cluster, 1, NULL);
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 1;
    cadre_variable_t *w = NULL;
    scale_check(cadre_variable_create(cluster.coordinator, "w", CADRE_F32,
                                      (int64_t[]){mib, COLUMNS}, 2, &options, &w),
                "w");
    double from = scale_now();
    for (int i = 0; i < times; i++) {
        cadre_tensor_t value = {.data = NULL};
        scale_check(cadre_variable_read(w, &value, SCALE_WAIT_MS), "a read");
        cadre_tensor_fini(&value);
    }
    double took = (scale_now() - from) / times;
    uint64_t pulls = scale_await_count(&cluster, "pulls", (uint64_t)times);
    long peak = scale_memory_peak_mib(cluster.ps[0]);
    scale_cluster_close(&cluster);
    return scale_verdict(pulls == (uint64_t)times,
                         "read %ld MiB %d times: %llu pulls, %.2f s each; ps at most %ld MiB", mib,
                         times, (unsigned long long)pulls, took, peak);
}
