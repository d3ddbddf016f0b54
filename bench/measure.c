#include "bench/measure.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

double
cadre_bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int
compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double
cadre_bench_quantile(double *values, size_t count, double part)
{
    cadre_assert(count > 0);
    qsort(values, count, sizeof(*values), compare);
    size_t at = (size_t)(part * (double)count);
    return values[at < count ? at : count - 1];
}

int
cadre_bench_measure_in_turn(cadre_bench_measure_t *measures, size_t count, int repetitions)
{
    cadre_assert(repetitions <= CADRE_BENCH_REPETITIONS_MAX);
    double(*values)[CADRE_BENCH_REPETITIONS_MAX] = cadre_calloc(count, sizeof(*values));
    int status = 0;
    for (int i = -1; i < repetitions && status == 0; i++) {
        for (size_t k = 0; k < count && status == 0; k++) {
            status = measures[k].run(measures[k].context, &values[k][i < 0 ? 0 : i]);
        }
    }

    for (size_t k = 0; k < count && status == 0; k++) {
        measures[k].value = cadre_bench_quantile(values[k], (size_t)repetitions, 0.5);
    }

    free(values);
    return status;
}

int
cadre_bench_cpu_seconds(pid_t pid, double *seconds)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0) {
        return cadre_fail(CADRE_EIO, "the CPU time of process %d: it has ended", (int)pid);
    }
    *seconds = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    return 0;
}

int
cadre_bench_resident_bytes(pid_t pid, double *bytes)
{
    char path[64];
    long long size = 0;
    long long resident = 0;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    int fields = file ? fscanf(file, "%lld %lld", &size, &resident) : 0;

    if (file) {
        fclose(file);
    }
    if (fields != 2) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }

    *bytes = (double)resident * (double)sysconf(_SC_PAGESIZE);
    return 0;
}

int
cadre_bench_peak_bytes(pid_t pid, double *bytes)
{
    char path[64];
    char line[256];
    long long kib = 0;
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof(line), file)) {
        found = sscanf(line, "VmHWM: %lld kB", &kib) == 1;
    }

    if (file) {
        fclose(file);
    }
    if (!found) {
        return cadre_fail(CADRE_EIO, "%s: no VmHWM", path);
    }

    *bytes = (double)kib * 1024;
    return 0;
}
