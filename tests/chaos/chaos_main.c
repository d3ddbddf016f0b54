/*
 * chaos_run - runs chaos tests and prints one line for each: PASS, FAIL or SKIP, its figure, its
 * time.
 *
 *     chaos_run [--short|--full] [--only NAME] [--count N] [--shape PSxWORKERS] [--seed S]
 *               [--results FILE] [--list]
 *
 * `run` beside this file is the way to call it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/system/process.h"
#include "tests/system/scratch.h"

enum { SHORT_DEADLINE_S = 600 };

static const chaos_test_t tests[] = {
    {"worker-kill", chaos_worker_kill, 20, 1000, 900, "kill -9 of a random worker"},
    {"ps-kill", chaos_ps_kill, 8, 1000, 1500, "kill -9 of a random ps under load"},
    {"coordinator-kill", chaos_coordinator_kill, 4, 100, 900, "kill -9 of the coordinator"},
    {"everything-kill", chaos_everything_kill, 2, 30, 600, "kill -9 of all processes"},
    {"table-kill", chaos_table_kill, 8, 300, 900, "kill -9 of anybody in a job with a table"},
    {"stop", chaos_stop, 4, 100, 900, "SIGSTOP of a worker or ps past its lease, then SIGCONT"},
    {"partition", chaos_partition, 4, 100, 900, "one-way and two-way, through the proxy"},
    {"namespaces", chaos_namespaces, 1, 15, 400, "the same between network namespaces"},
    {"unreachable", chaos_unreachable, 2, 30, 600, "a worker cut off from one ps, for good"},
    {"stuck-ps", chaos_stuck_ps, 2, 40, 600, "a ps whose shard stands still while it lives"},
    {"captive", chaos_captive, 1, 10, 600, "a frozen coordinator, another one in its place"},
    {"deadline", chaos_deadline, 2, 40, 600, "closures that run past their deadline"},
    {"slow-worker", chaos_slow_worker, 16, 90, 300, "a worker that is stopped most of the time"},
    {"sync-kill", chaos_sync_kill, 9, 300, 1800,
     "kill -9 of anybody in synchronous steps of 1 to 3 ps and 1, 2, 4 workers"},
    {"strangers", chaos_strangers, 1, 4, 600, "a thousand who have no key and behave badly"},
    {"disk", chaos_disk, 1, 1000, 900, "ENOSPC, EIO, kill at calls of a checkpoint; a full disk"},
    {"ps-recovery-time", chaos_recovery_time, 2, 100, 600, "from kill -9 to the next push applied"},
    {"accuracy", chaos_accuracy, 0, 3, 900, "training while a ps and a worker die every 3 s"},
};

typedef struct {
    bool full;
    bool list;
    const char *only;
    const char *results;
    int count;
    int shape_ps;
    int shape_workers;
    uint64_t seed;
} options_t;

/* --- what tests call --- */

static void
add(char *text, const char *format, va_list arguments)
{
    size_t length = strlen(text);
    vsnprintf(text + length, CHAOS_TEXT_SIZE - length, format, arguments);
}

void
chaos_say(chaos_run_t *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(self->text, format, arguments);
    va_end(arguments);
}

static void
add_json(chaos_run_t *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(self->json, format, arguments);
    va_end(arguments);
}

void
chaos_number(chaos_run_t *self, const char *name, double value)
{
    add_json(self, ", \"%s\": %.6g", name, value);
}

void
chaos_skip(chaos_run_t *self, const char *why)
{
    chaos_say(self, "%s", why);
    exit(CHAOS_SKIPPED);
}

int
chaos_draw(chaos_run_t *self, int below)
{
    return (int)cadre_random_below(&self->random, (uint64_t)below);
}

static int
compare(const void *left, const void *right)
{
    double one = *(const double *)left;
    double other = *(const double *)right;
    return (one > other) - (one < other);
}

double
chaos_percentile(double *values, int count, int percent)
{
    require(count > 0, "values to take a percentile of");
    qsort(values, (size_t)count, sizeof(*values), compare);
    int rank = (count * percent + 99) / 100; /* nearest rank */
    return values[rank > 0 ? rank - 1 : 0];
}

/* --- running --- */

/* Runs one test in a process of its own, so that whatever ends it ends nothing else. */
static int
run_apart(const chaos_test_t *test, chaos_run_t *run, int deadline_s)
{
    int end = 0;
    fflush(stdout);
    pid_t parent = getpid();
    pid_t pid = fork();
    require(pid >= 0, "a process");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            test->run(run);
        }
        exit(0);
    }
    if (!process_wait(pid, (int64_t)deadline_s * 1000, &end)) {
        chaos_say(run, " (not over after %d s)", deadline_s);
        kill(pid, SIGABRT);
        process_wait(pid, (int64_t)deadline_s * 1000, &end);
    }
    return end;
}

/* 0, 1 for a failure, or CHAOS_SKIPPED. */
static int
run_one(const chaos_test_t *test, const options_t *options)
{
    chaos_run_t *run =
        mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(run != MAP_FAILED, "memory");
    run->short_form = !options->full && test->short_count > 0;
    run->count = run->short_form ? test->short_count : test->full_count;
    run->count = options->count ? options->count : run->count;
    run->shape_ps = options->shape_ps;
    run->shape_workers = options->shape_workers;
    run->seed = options->seed;
    cadre_random_init(&run->random, run->seed, 0);
    int64_t began_ms = cadre_clock_now_ms();
    int end =
        run_apart(test, run, run->count > test->short_count ? test->deadline_s : SHORT_DEADLINE_S);
    bool skipped = WIFEXITED(end) && WEXITSTATUS(end) == CHAOS_SKIPPED;
    bool passed = WIFEXITED(end) && WEXITSTATUS(end) == 0;
    double seconds = (double)(cadre_clock_now_ms() - began_ms) / 1000;
    const char *verdict = skipped ? "SKIP" : passed ? "PASS" : "FAIL";
    printf("%s %-18s %6.1f s  seed=%" PRIu64 "  %s\n", verdict, test->name, seconds, run->seed,
           run->text[0] ? run->text : "see above");
    fflush(stdout);
    FILE *file = options->results ? fopen(options->results, "ae") : NULL;
    if (file) {
        fprintf(file,
                "{\"test\": \"%s\", \"verdict\": \"%s\", \"seed\": %" PRIu64
                ", \"count\": %d, \"wall_s\": %.1f%s}\n",
                test->name, verdict, run->seed, run->count, seconds, run->json);
        fclose(file);
    }
    munmap(run, sizeof(*run));
    return skipped ? CHAOS_SKIPPED : !passed;
}

/* "2x4": 2 ps and 4 workers. */
static bool
parse_shape(const char *text, options_t *options)
{
    char *end = NULL;
    options->shape_ps = (int)strtol(text, &end, 10);
    if (*end != 'x') {
        return false;
    }
    options->shape_workers = (int)strtol(end + 1, &end, 10);
    return !*end && options->shape_ps > 0 && options->shape_workers > 0;
}

static bool
parse(int count, char **words, options_t *options)
{
    *options = (options_t){.seed = (uint64_t)cadre_clock_now_us() % 1000000};
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : NULL;
        if (strcmp(words[i], "--full") == 0) {
            options->full = true;
        } else if (strcmp(words[i], "--list") == 0) {
            options->list = true;
        } else if (strcmp(words[i], "--short") != 0) {
            if (!value) {
                return false;
            } else if (strcmp(words[i], "--only") == 0) {
                options->only = value;
            } else if (strcmp(words[i], "--results") == 0) {
                options->results = value;
            } else if (strcmp(words[i], "--count") == 0) {
                options->count = (int)strtol(value, NULL, 10);
            } else if (strcmp(words[i], "--seed") == 0) {
                options->seed = strtoull(value, NULL, 10);
            } else if (strcmp(words[i], "--shape") == 0) {
                if (!parse_shape(value, options)) {
                    return false;
                }
            } else {
                return false;
            }
            i++;
        }
    }
    return options->count >= 0;
}

int
main(int argc, char **argv)
{
    options_t options;
    if (!parse(argc, argv, &options)) {
        fprintf(stderr, "usage: chaos_run [--short|--full] [--only NAME] [--count N] "
                        "[--shape PSxWORKERS] [--seed S] [--results FILE] [--list]\n");
        return 2;
    }
    int ran = 0;
    int failed = 0;
    int skipped = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(tests); i++) {
        if (options.list) {
            printf("%-20s %6d %6d  %s\n", tests[i].name, tests[i].short_count, tests[i].full_count,
                   tests[i].what);
        } else if (options.only ? strcmp(options.only, tests[i].name) == 0
                                : options.full || tests[i].short_count > 0) {
            int verdict = run_one(&tests[i], &options);
            failed += verdict == 1;
            skipped += verdict == CHAOS_SKIPPED;
            ran++;
        }
    }
    if (ran == 0 && !options.list) {
        fprintf(stderr, "no such test; --list shows them\n");
        return 2;
    }
    return ran > 0 && skipped == ran ? CHAOS_SKIPPED : failed > 0;
}
