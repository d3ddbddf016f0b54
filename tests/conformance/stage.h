/*
 * stage - what most conformance tests begin with: a cluster, and "wide", a variable of WIDE_ROWS
 * rows that has a part on every shard and starts at zero with the optimizer "add".
 *
 * The additive model is the oracle: each closure that adds 1 adds it to every row, so a lost update
 * shows as less and a repeated one as more.
 *
 * Owner:   a test.
 * Thread:  the test's main one.
 */
#ifndef CADRE_TESTS_CONFORMANCE_STAGE_H
#define CADRE_TESTS_CONFORMANCE_STAGE_H

#include <cadre/coordinator.h>
#include <criterion/criterion.h>

#include "tests/conformance/functions.h"
#include "tests/system/local_cluster.h"

/* Passes when a call of Cadre succeeds, and shows its error otherwise. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        int status_ = (call);                                                                      \
        cr_assert(status_ == 0, "%s: %s: %s", #call, cadre_status_name(status_),                   \
                  cadre_error_text());                                                             \
    } while (0)

/* Passes when a call fails with `wanted` and its text contains `part`. */
#define FAILS(call, wanted, part)                                                                  \
    do {                                                                                           \
        int status_ = (call);                                                                      \
        cr_assert(status_ == (wanted), "%s: %s: %s", #call, cadre_status_name(status_),            \
                  status_ < 0 ? cadre_error_text() : "");                                          \
        cr_assert(strstr(cadre_error_text(), (part)), "%s: \"%s\" is not in \"%s\"", #call,        \
                  (part), cadre_error_text());                                                     \
    } while (0)

/* Waits for a condition. */
#define EVENTUALLY(condition)                                                                      \
    for (deadline_t deadline_ = deadline_in(LOCAL_WAIT_MS); !(condition);) {                       \
        cr_assert(again(deadline_), "in time: %s", #condition);                                    \
    }

/* Two tests of one body, which gets a queue's capacity: 0, the default, and 2, where the queue is
 * full nearly always. */
#define BOTH_CAPACITIES(suite, name)                                                               \
    static void name(size_t capacity);                                                             \
    Test(suite, name)                                                                              \
    {                                                                                              \
        name(0);                                                                                   \
    }                                                                                              \
    Test(suite, name##_with_a_queue_of_two)                                                        \
    {                                                                                              \
        name(2);                                                                                   \
    }                                                                                              \
    static void name(size_t capacity)

/* Two tests of one body, which gets the number of ps and of workers: 1, and 2. */
#define BOTH_SIZES(suite, name)                                                                    \
    static void name(int size);                                                                    \
    Test(suite, name)                                                                              \
    {                                                                                              \
        name(1);                                                                                   \
    }                                                                                              \
    Test(suite, name##_with_two_of_each)                                                           \
    {                                                                                              \
        name(2);                                                                                   \
    }                                                                                              \
    static void name(int size)

typedef struct {
    local_cluster_t cluster;
    cadre_coordinator_t *coordinator;
    cadre_variable_t *wide;
} stage_t;

/* Opens the cluster and creates "wide". */
void stage_open(stage_t *self, int ps, int workers);

/* The same with a capacity of the queue, 0 for the default. */
void stage_open_capacity(stage_t *self, int ps, int workers, size_t capacity);

/* The same with any options. */
void stage_open_with(stage_t *self, const local_cluster_options_t *options);

/* Ends the job; every task must leave by itself. */
void stage_close(stage_t *self);

/* The native function `name`, registered. */
cadre_function_t *stage_function(stage_t *self, const char *name);

/* Schedules `count` calls of `name` without arguments. */
void stage_schedule(stage_t *self, const char *name, int count);

/* Schedules one call of `name` with one argument. */
cadre_future_t *stage_call(stage_t *self, const char *name, const char *argument,
                           const cadre_tensor_t *value);

/* A view of `text` as a tensor of u8. */
cadre_tensor_t stage_text(const char *text);

/* A tensor like "wide" that is `value` everywhere, in `values`. */
cadre_tensor_t stage_row(float values[WIDE_ROWS], float value);

/* Pushes gradients number `first` to `last` to "wide", one after the other. */
void stage_train(stage_t *self, int first, int last);

/* Joins; passes when that succeeds. */
void stage_join(stage_t *self);

/* Passes when every row of "wide" is `value`. */
void stage_expect(stage_t *self, double value);

/* Passes when every shard has applied exactly `updates`. */
void stage_expect_applied(stage_t *self, uint64_t updates);

/* A file of `rows` rows "i, 0, i" in the scratch directory: column 0 and the label say which row it
 * is. Its path is freed by the caller. */
char *stage_write_rows(const stage_t *self, int rows);

/* Opens such a file as the dataset `name`. */
cadre_dataset_t *stage_open_rows(const stage_t *self, const char *path, const char *name);

/* Creates "visits", to which the function "visit" adds 1 for each row it is given. */
cadre_variable_t *stage_visits(stage_t *self);

/* Passes when each of the first `rows` rows was visited `times` times and no other ever. */
void stage_expect_visits(cadre_variable_t *visits, int rows, int times);

/* A call of "hold": its files in the scratch directory, named after `name`. */
typedef struct {
    char *started;
    char *release;
    cadre_future_t *future;
} hold_t;

/* The files alone, for another function that uses them; no future. */
hold_t stage_hold_files(stage_t *self, const char *name);

/* Schedules one. */
hold_t stage_hold(stage_t *self, const char *name);

/* Schedules a call of "fail_when" instead, which fails with `name` as its text. */
hold_t stage_hold_failing(stage_t *self, const char *name);

/* How many attempts have begun. */
int hold_begun(const hold_t *self);

/* Waits until `attempts` have begun; gives the worker of the last one. */
int hold_wait(const hold_t *self, int attempts);

/* Lets every attempt, now and later, go on. */
void hold_release(const hold_t *self);

/* Frees it; the future is dropped. */
void hold_fini(hold_t *self);

#endif
