/* What tasks cost that have nothing to do. */
#include <criterion/criterion.h>

#include "tests/system/local_cluster.h"
#include "tests/system/process.h"

TestSuite(idle, .timeout = 900);

enum {
    TASKS = 4,
    SETTLED_MS = 300, /* without any work: threads that were just started have gone to sleep */
    WINDOW_MS = 2000,
    CPU_MAX_MS = 20, /* two ticks of the kernel's clock: heartbeats, of which there are a few */
};

static int64_t
cpu_ms(const pid_t pids[TASKS], int64_t each[TASKS])
{
    int64_t sum = 0;
    for (int i = 0; i < TASKS; i++) {
        each[i] = process_cpu_ms(pids[i]);
        cr_assert_geq(each[i], 0);
        sum += each[i];
    }
    return sum;
}

/* Waits until nobody has done anything for a while. */
static void
settle(const pid_t pids[TASKS])
{
    int64_t each[TASKS];
    int64_t sum = cpu_ms(pids, each);
    deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    for (deadline_t quiet = deadline_in(SETTLED_MS); again(quiet);) {
        cr_assert(again(deadline), "the tasks come to rest");
        int64_t now = cpu_ms(pids, each);
        if (now != sum) {
            sum = now;
            quiet = deadline_in(SETTLED_MS);
        }
    }
}

/* The CPU time in a window of the task that used most. */
static int64_t
most_used_ms(const pid_t pids[TASKS])
{
    int64_t before[TASKS];
    int64_t after[TASKS];
    int64_t most_ms = 0;
    cpu_ms(pids, before);
    for (deadline_t window = deadline_in(WINDOW_MS); again(window);) {
    }
    cpu_ms(pids, after);
    for (int i = 0; i < TASKS; i++) {
        int64_t used_ms = after[i] - before[i];
        most_ms = used_ms > most_ms ? used_ms : most_ms;
    }
    return most_ms;
}

Test(idle, idle_processes_use_no_measurable_cpu)
{
    local_cluster_t cluster;
    local_cluster_open(&cluster, &(local_cluster_options_t){.ps = 2, .workers = 2});
    const pid_t pids[] = {cluster.tasks[LOCAL_PS][0], cluster.tasks[LOCAL_PS][1],
                          cluster.tasks[LOCAL_WORKER][0], cluster.tasks[LOCAL_WORKER][1]};
    int64_t most_ms = INT64_MAX;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); most_ms > CPU_MAX_MS;) {
        cr_assert(again(deadline), "a task used %d ms of %d", (int)most_ms, WINDOW_MS);
        settle(pids);
        most_ms = most_used_ms(pids);
    }
    cr_expect_eq(cadre_coordinator_totals(cluster.coordinator).workers, 2,
                 "they were heard all the while");
    local_cluster_close(&cluster);
}
