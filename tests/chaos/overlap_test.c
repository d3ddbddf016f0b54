/*
 * overlap_test - slots of one worker hide a slow network: while one closure computes, another pulls
 * and a third one pushes.
 *
 * Everything to and from the ps is delayed by 10 ms by the proxy, a question and its answer by 20:
 * with one slot a closure of examples/digits.json takes 40 ms of waiting and a fraction of one of
 * computing, with K slots K of them wait at the same time.
 *
 * For figures: CADRE_TEST_CLOSURES=200 tests/test_chaos_overlap_test --filter '*figures' prints a
 * line for each K, of that many closures per slot.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cadre/coordinator.h>
#include <cadre/program.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/chaos/proxy.h"
#include "tests/sanitizer.h"
#include "tests/system/local_cluster.h"
#include "tests/system/process.h"

TestSuite(overlap, .timeout = 900);

enum {
    DELAY_MS = 10, /* each way */
    FEATURES = 64, /* of examples/data/digits.csv.gz */
    HIDDEN = 128,
    CLASSES = 10,
    BATCH = 32,
    CALL_MS = 120000,
    CLOSURES = 40, /* per slot */
    FEW = 12,      /* closures, of three slots: a moment in which a busy machine lets them run */
    RATE_WAIT_MS = 150000,
};

/* Examples per second of one slot on the fastest of machines: it waits for the ps twice. */
static const double alone_max = 1e3 * BATCH / (4 * DELAY_MS);

/* 3 is what can be reached when computing costs nothing. */
static const double least_ratio = 1.8;

typedef struct {
    local_cluster_t cluster;
    proxy_t *proxy;
    int link;
    cadre_function_t *step;
    cadre_dataset_t *data;
    uint64_t epoch;
    int worker; /* index of the one that runs; -1: none has */
} rig_t;

/* --- the cluster --- */

static void
must(int status)
{
    cr_assert(status >= 0, "%s", cadre_error_text());
}

static cadre_program_t *
new_program(cadre_coordinator_t *coordinator)
{
    static const struct {
        const char *name;
        int rank;
        int64_t shape[2];
    } variables[] = {
        {"w1", 2, {FEATURES, HIDDEN}},
        {"b1", 1, {HIDDEN}},
        {"w2", 2, {HIDDEN, CLASSES}},
        {"b2", 1, {CLASSES}},
    };
    cadre_node_t nodes[CADRE_COUNT_OF(variables)];
    cadre_program_t *program = cadre_program_new("train");
    const cadre_dim_t rows[] = {cadre_dim_symbol("B"), cadre_dim(FEATURES)};
    cadre_node_t x = cadre_op_arg(program, "x", CADRE_F32, rows, 2);
    cadre_node_t y = cadre_op_arg(program, "y", CADRE_I32, rows, 1);
    for (size_t i = 0; i < CADRE_COUNT_OF(variables); i++) {
        cadre_variable_t *variable = NULL;
        cadre_variable_options_t options = cadre_variable_options();
        options.initializer = cadre_initializer(variables[i].rank > 1 ? CADRE_INITIALIZER_HE_NORMAL
                                                                      : CADRE_INITIALIZER_ZEROS);
        options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_SGD);
        must(cadre_variable_create(coordinator, variables[i].name, CADRE_F32, variables[i].shape,
                                   variables[i].rank, &options, &variable));
        nodes[i] = cadre_op_var(program, variables[i].name, variables[i].shape, variables[i].rank);
    }
    cadre_node_t hidden = cadre_op_relu(program, cadre_op_dense(program, x, nodes[0], nodes[1]));
    cadre_node_t loss = cadre_op_softmax_cross_entropy(
        program, cadre_op_dense(program, hidden, nodes[2], nodes[3]), y);
    cadre_op_minimize(program, loss);
    must(cadre_program_finish(program));
    return program;
}

/* The ps has bound its socket, and the coordinator is connected to it; workers get the proxy, which
 * takes the socket's place. */
static void
slow_down(rig_t *self)
{
    char bound[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_auto(cadre_free) char *place = cadre_asprintf("%s/ps-0", self->cluster.scratch.path);
    cadre_auto(cadre_free) char *aside = cadre_asprintf("%s.aside", place);
    cadre_auto(cadre_free) char *from = cadre_asprintf("ipc://%s", place);
    cadre_auto(cadre_free) char *to = cadre_asprintf("ipc://%s", aside);
    cr_assert_eq(rename(place, aside), 0);
    self->link = proxy_link(self->proxy, from, to, bound);
    proxy_rule(self->proxy, self->link, 0, PROXY_BOTH, (stream_rule_t){.delay_ms = DELAY_MS});
}

static void
start_worker(rig_t *self, int slots)
{
    if (self->worker >= 0) { /* leaves by itself, and has written its trace to the end */
        local_cluster_signal(&self->cluster, LOCAL_WORKER, self->worker, SIGTERM);
        int end = local_cluster_reap(&self->cluster, LOCAL_WORKER, self->worker);
        cr_assert(WIFEXITED(end) && WEXITSTATUS(end) == 143);
    }
    self->worker++;
    self->cluster.options.slots = slots;
    local_cluster_start(&self->cluster, LOCAL_WORKER, self->worker);
    local_cluster_wait_workers(&self->cluster, 1);
}

static void
rig_open(rig_t *self)
{
    *self = (rig_t){.proxy = proxy_open(), .worker = -1};
    local_cluster_open(&self->cluster, &(local_cluster_options_t){.ps = 1, .trace = true});
    slow_down(self);
    start_worker(self, 1);
    cadre_coordinator_t *coordinator = self->cluster.coordinator;
    cadre_program_t *program = new_program(coordinator);
    must(cadre_function_register(coordinator, &program, &self->step));
    cadre_auto(cadre_free) char *path = source_path("examples/data/digits.csv.gz");
    cadre_auto(cadre_free) char *data =
        cadre_asprintf("{\"format\": \"csv\", \"path\": \"%s\", \"scale\": 0.0625}", path);
    must(cadre_dataset_open(coordinator, "digits", data, CALL_MS, &self->data));
}

static void
rig_close(rig_t *self)
{
    local_cluster_close(&self->cluster);
    proxy_close(&self->proxy);
}

/* Runs `closures` batches; examples per second. */
static double
train(rig_t *self, int closures)
{
    int64_t examples = 0;
    int64_t begin_us = cadre_clock_now_us();
    for (int i = 0; i < closures;) {
        cadre_batch_t batch;
        must(cadre_dataset_begin(self->data, self->epoch++, 0, BATCH, CADRE_ORDER_SHUFFLED,
                                 CADRE_LAST_BATCH_DROPPED));
        for (; i < closures && cadre_dataset_next(self->data, &batch); i++) {
            const cadre_call_t call = cadre_call_batch(&batch);
            must(cadre_coordinator_schedule(self->cluster.coordinator, self->step, &call, CALL_MS,
                                            NULL));
            examples += batch.count;
        }
    }
    must(cadre_coordinator_join(self->cluster.coordinator, CALL_MS));
    return 1e6 * (double)examples / (double)(cadre_clock_now_us() - begin_us);
}

/* The best of what a few closures reach, tried until it is `wanted` or RATE_WAIT_MS are over. A
 * busy machine makes a rate lower, and never higher than slots can. */
static double
best_rate(rig_t *self, double wanted)
{
    deadline_t deadline = deadline_in(RATE_WAIT_MS);
    double best = 0;
    do {
        double rate = train(self, FEW);
        best = rate > best ? rate : best;
    } while (best < wanted && again(deadline));
    return best;
}

/* --- what a trace says --- */

static json_t *
load_trace(const rig_t *self, int worker)
{
    json_error_t error;
    cadre_auto(cadre_free) char *path = local_cluster_trace(&self->cluster, worker);
    json_t *events = json_load_file(path, 0, &error);
    cr_assert(events, "%s:%d: %s", path, error.line, error.text);
    cr_assert(json_is_array(events));
    return events;
}

typedef struct {
    json_int_t begin_us;
    json_int_t end_us;
    json_int_t closure;
    json_int_t slot;
} span_t;

/* Event `at`, when it is one of `name`. */
static bool
span_of(const json_t *events, size_t at, const char *name, span_t *span)
{
    const json_t *event = json_array_get(events, at);
    const char *given = json_string_value(json_object_get(event, "name"));
    if (!given || strcmp(given, name) != 0) {
        return false;
    }
    cr_assert_str_eq(json_string_value(json_object_get(event, "ph")), "X");
    const json_t *arguments = json_object_get(event, "args");
    cr_assert_geq(json_integer_value(json_object_get(arguments, "attempt")), 1);
    cr_assert(json_is_integer(json_object_get(arguments, "bytes")));
    span->begin_us = json_integer_value(json_object_get(event, "ts"));
    span->end_us = span->begin_us + json_integer_value(json_object_get(event, "dur"));
    span->closure = json_integer_value(json_object_get(arguments, "closure"));
    span->slot = json_integer_value(json_object_get(event, "tid"));
    cr_assert(span->begin_us > 0 && span->end_us >= span->begin_us && span->closure > 0);
    return true;
}

static size_t
count_of(const json_t *events, const char *name)
{
    size_t count = 0;
    span_t span;
    for (size_t i = 0; i < json_array_size(events); i++) {
        count += span_of(events, i, name, &span);
    }
    return count;
}

/* Pairs of a `left` and a `right` of different closures that overlap in time. */
static size_t
overlaps(const json_t *events, const char *left, const char *right)
{
    size_t count = 0;
    span_t a;
    span_t b;
    for (size_t i = 0; i < json_array_size(events); i++) {
        for (size_t k = 0; span_of(events, i, left, &a) && k < json_array_size(events); k++) {
            count += span_of(events, k, right, &b) && a.closure != b.closure &&
                     a.begin_us < b.end_us && b.begin_us < a.end_us;
        }
    }
    return count;
}

static void
expect_overlap(const json_t *events, bool wanted)
{
    static const char *const pairs[][2] = {{"pull", "compute"},
                                           {"compute", "push"},
                                           {"pull", "push"},
                                           {"pull", "pull"},
                                           {"push", "push"}};
    for (size_t i = 0; i < CADRE_COUNT_OF(pairs); i++) {
        size_t count = overlaps(events, pairs[i][0], pairs[i][1]);
        cr_expect((count > 0) == wanted, "%zu times %s and %s of two closures at once", count,
                  pairs[i][0], pairs[i][1]);
    }
}

/* Every closure has each of its parts once. */
static void
expect_whole(const json_t *events, size_t closures)
{
    static const char *const names[] = {"wait", "batch", "pull", "compute", "push"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cr_expect_eq(count_of(events, names[i]), closures, "%s", names[i]);
    }
}

/* --- tests --- */

Test(overlap, three_slots_hide_a_delay_of_20_ms_and_their_traces_show_it)
{
    rig_t rig;
    rig_open(&rig);
    double one = train(&rig, CLOSURES);
    start_worker(&rig, 3);
    /* with a sanitizer what computes takes as long as the delay */
    double three = SANITIZER ? 0 : best_rate(&rig, least_ratio * alone_max);
    json_t *alone = load_trace(&rig, 0); /* of a worker that SIGTERM has ended */
    rig_close(&rig);
    cr_expect_leq(one, alone_max, "%.0f examples/s with 1 slot: nothing delays it", one);
    cr_expect(SANITIZER || three >= least_ratio * alone_max,
              "%.0f and %.0f examples/s with 1 and 3 slots", one, three);
    expect_whole(alone, CLOSURES);
    expect_overlap(alone, false);
    json_decref(alone);
}

Test(overlap, the_trace_of_three_slots_shows_pull_compute_and_push_of_three_closures_at_once)
{
    rig_t rig;
    rig_open(&rig);
    start_worker(&rig, 3);
    train(&rig, 3 * CLOSURES);
    local_cluster_signal(&rig.cluster, LOCAL_WORKER, rig.worker, SIGTERM);
    local_cluster_reap(&rig.cluster, LOCAL_WORKER, rig.worker);
    json_t *events = load_trace(&rig, rig.worker);
    rig_close(&rig);
    expect_whole(events, 3 * CLOSURES);
    expect_overlap(events, true);
    json_decref(events);
}

Test(overlap, the_trace_of_a_worker_that_was_killed_is_sound)
{
    rig_t rig;
    rig_open(&rig);
    train(&rig, 3 * CLOSURES); /* takes seconds: lanes have been written out */
    local_cluster_signal(&rig.cluster, LOCAL_WORKER, rig.worker, SIGKILL);
    json_t *events = load_trace(&rig, rig.worker);
    rig_close(&rig);
    cr_expect_gt(count_of(events, "push"), CLOSURES);
    json_decref(events);
}

Test(overlap, figures)
{
    static const int slots[] = {1, 2, 3, 4, 6, 8};
    const char *closures = getenv("CADRE_TEST_CLOSURES");
    if (!closures) {
        cr_skip_test("CADRE_TEST_CLOSURES says nothing of how many");
    }
    rig_t rig;
    rig_open(&rig);
    double one = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(slots); i++) {
        if (i > 0) {
            start_worker(&rig, slots[i]);
        }
        double rate = train(&rig, slots[i] * (int)strtol(closures, NULL, 10));
        one = i == 0 ? rate : one;
        cadre_shard_totals_t totals;
        must(cadre_shard_totals(rig.cluster.coordinator, 0, &totals, CALL_MS));
        fprintf(stderr, "slots=%d examples_per_s=%.0f ratio=%.2f staleness_max=%d\n", slots[i],
                rate, rate / one, (int)totals.staleness_max);
    }
    rig_close(&rig);
}
