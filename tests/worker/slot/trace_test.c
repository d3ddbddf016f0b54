#include "worker/slot/trace.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(trace, .timeout = 240);

enum { SECOND_US = 1000000 };

static char path[64];

/* A file of the test's own. */
static void
make_path(void)
{
    snprintf(path, sizeof(path), "/tmp/cadre-trace-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void
remove_path(void)
{
    unlink(path);
}

static cadre_trace_t *
open_trace(uint32_t slots, uint64_t events_max)
{
    cadre_trace_t *trace = NULL;
    cr_assert_eq(cadre_trace_open(path, slots, events_max, &trace), 0, "%s", cadre_error_text());
    return trace;
}

static cadre_trace_event_t
event_at(cadre_trace_kind_t kind, uint64_t closure, int64_t begin_us)
{
    return (cadre_trace_event_t){.kind = kind,
                                 .worker = 2,
                                 .closure = closure,
                                 .attempt = 1,
                                 .size_bytes = 100,
                                 .begin_us = begin_us,
                                 .end_us = begin_us + 5};
}

/* Events that are no names, of a file that must be sound. */
static size_t
count(const char *name)
{
    size_t found = 0;
    json_error_t error;
    json_t *events = json_load_file(path, 0, &error);
    cr_assert(json_is_array(events), "%d: %s", error.line, error.text);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        found += strcmp(json_string_value(json_object_get(event, "name")), name) == 0;
    }
    json_decref(events);
    return found;
}

Test(trace, says_of_an_event_what_was_when_and_where, .init = make_path, .fini = remove_path)
{
    cadre_trace_t *trace = open_trace(3, 100);
    cadre_trace_event_t event = event_at(CADRE_TRACE_PULL, 7, 1000);
    cadre_trace_add(cadre_trace_lane(trace, 1), &event);
    cr_assert_eq(cadre_trace_close(&trace), 0);
    cr_assert_null(trace);
    json_t *events = json_load_file(path, 0, NULL);
    cr_assert_eq(json_array_size(events), 4, "names of process, reader and slot; one event");
    const json_t *given = json_array_get(events, 3);
    json_t *wanted = json_pack("{s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:{s:i,s:i,s:i}}", "name", "pull",
                               "cat", "cadre", "ph", "X", "ts", 1000, "dur", 5, "pid", 2, "tid", 1,
                               "args", "closure", 7, "attempt", 1, "bytes", 100);
    cr_expect(json_equal(given, wanted));
    json_decref(wanted);
    json_decref(events);
}

Test(trace, puts_batches_into_a_row_of_the_reader, .init = make_path, .fini = remove_path)
{
    cadre_trace_t *trace = open_trace(3, 100);
    cadre_trace_event_t event = event_at(CADRE_TRACE_BATCH, 7, 1000);
    cadre_trace_add(cadre_trace_lane(trace, 0), &event);
    cr_assert_eq(cadre_trace_close(&trace), 0);
    json_t *events = json_load_file(path, 0, NULL);
    const json_t *given = json_array_get(events, 3);
    cr_expect_eq(json_integer_value(json_object_get(given, "tid")), 3);
    json_decref(events);
}

Test(trace, a_file_without_events_is_an_empty_array, .init = make_path, .fini = remove_path)
{
    cadre_trace_t *trace = open_trace(1, 100);
    cr_expect_eq(count("pull"), 0);
    cr_assert_eq(cadre_trace_close(&trace), 0);
    cr_expect_eq(count("pull"), 0);
}

Test(trace, is_sound_after_every_write, .init = make_path, .fini = remove_path)
{
    cadre_trace_t *trace = open_trace(1, 1000);
    cadre_trace_lane_t *lane = cadre_trace_lane(trace, 0);
    for (uint64_t i = 1; i <= 300; i++) {
        cadre_trace_event_t event = event_at(CADRE_TRACE_PUSH, i, SECOND_US);
        cadre_trace_add(lane, &event);
        cadre_trace_flush(lane);
        cr_assert_eq(count("push"), i);
    }
    cr_assert_eq(cadre_trace_close(&trace), 0);
}

Test(trace, writes_when_the_lane_is_full_or_a_second_has_passed, .init = make_path,
     .fini = remove_path)
{
    cadre_trace_t *trace = open_trace(1, 1000);
    cadre_trace_lane_t *lane = cadre_trace_lane(trace, 0);
    cadre_trace_event_t event = event_at(CADRE_TRACE_WAIT, 1, SECOND_US);
    cadre_trace_add(lane, &event); /* the first second has passed */
    cr_expect_eq(count("wait"), 1);
    for (int i = 1; i < CADRE_TRACE_LANE_EVENTS; i++) {
        cadre_trace_add(lane, &event);
    }
    cr_expect_eq(count("wait"), 1);
    cadre_trace_add(lane, &event);
    cr_expect_eq(count("wait"), 1 + CADRE_TRACE_LANE_EVENTS);
    cadre_trace_add(lane, &event);
    event.end_us += SECOND_US - 1;
    cadre_trace_add(lane, &event);
    cr_expect_eq(count("wait"), 1 + CADRE_TRACE_LANE_EVENTS);
    event.end_us++;
    cadre_trace_add(lane, &event);
    cr_expect_eq(count("wait"), 4 + CADRE_TRACE_LANE_EVENTS);
    cr_assert_eq(cadre_trace_close(&trace), 0);
}

static void
expect_dropped(uint64_t events, uint64_t dropped)
{
    enum { LIMIT = 130 };
    cadre_trace_t *trace = open_trace(2, LIMIT);
    for (uint64_t i = 0; i < events; i++) {
        cadre_trace_event_t event = event_at(CADRE_TRACE_COMPUTE, i, 0);
        cadre_trace_add(cadre_trace_lane(trace, i % 2), &event);
    }
    cadre_trace_flush(cadre_trace_lane(trace, 0));
    cadre_trace_flush(cadre_trace_lane(trace, 1));
    cr_expect_eq(cadre_trace_dropped(trace), dropped);
    cr_assert_eq(cadre_trace_close(&trace), 0);
    cr_expect_eq(count("compute"), events - dropped);
    cr_expect_eq(count("dropped"), dropped > 0);
}

Test(trace, counts_what_is_beyond_the_limit, .init = make_path, .fini = remove_path)
{
    expect_dropped(129, 0);
    expect_dropped(130, 0);
    expect_dropped(131, 1);
    expect_dropped(1000, 870);
}

Test(trace, a_path_that_cannot_be_written_is_named)
{
    cadre_trace_t *trace = NULL;
    cr_assert_eq(cadre_trace_open("/nowhere/trace.json", 1, 10, &trace), CADRE_EIO);
    cr_expect(strstr(cadre_error_text(), "/nowhere/trace.json: No such file"), "%s",
              cadre_error_text());
}

Test(trace, a_full_disk_ends_the_file_before_what_did_not_fit, .init = make_path,
     .fini = remove_path)
{
    cadre_trace_t *trace = open_trace(1, 100000);
    cadre_trace_lane_t *lane = cadre_trace_lane(trace, 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {20000, RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum { EVENTS = 1000 };
    for (uint64_t i = 0; i < EVENTS; i++) {
        cadre_trace_event_t event = event_at(CADRE_TRACE_PUSH, i, 0);
        cadre_trace_add(lane, &event);
    }
    cadre_trace_flush(lane);
    uint64_t dropped = cadre_trace_dropped(trace);
    cr_expect_eq(cadre_trace_close(&trace), CADRE_EIO);
    cr_expect(strstr(cadre_error_text(), path), "%s", cadre_error_text());
    cr_expect_gt(dropped, 0);
    cr_expect_eq(count("push"), EVENTS - dropped);
}

static void *
add_many(void *argument)
{
    for (uint64_t i = 0; i < 1000; i++) {
        cadre_trace_event_t event = event_at(CADRE_TRACE_COMPUTE, i, (int64_t)i);
        cadre_trace_add(argument, &event);
    }
    return NULL;
}

Test(trace, takes_events_of_several_threads, .init = make_path, .fini = remove_path)
{
    enum { THREADS = 4 };
    cadre_trace_t *trace = open_trace(THREADS, 1000000);
    pthread_t threads[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, add_many, cadre_trace_lane(trace, i));
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_assert_eq(cadre_trace_close(&trace), 0);
    cr_expect_eq(count("compute"), THREADS * 1000);
    cr_expect_eq(count("thread_name"), THREADS + 1);
}
