/*
 * functions - what the native functions of the conformance tests agree on with the tests.
 *
 * They are in functions_native.c and functions_values.c; "noop" is every worker's own.
 *
 * - add_one: pushes ones to "wide"
 * - add_steps: pushes ones to "wide" once per step; "steps" (i64) says how often
 * - add_batch: pushes the sum of the batch's "x" to every element of "wide"
 * - visit: adds 1 to "visits" at each row of the batch, whose number is in column 0 of "x"
 * - tally: gives the batch's sum of column 0 of "x" as "correct" and 1 as "loss"
 * - push: pushes argument "gradient" to "wide"
 * - fail: fails with the text of argument "text" (u8)
 * - hold: writes a line to the file named by "started", waits until the file named by "release" is
 *   there, pushes ones to "wide"; ends when cancelled
 * - toil: sleeps TOIL_NAPS times TOIL_NAP_MS, then pushes ones to "wide"; ends when cancelled
 * - fail_when: as hold, but it does not heed cancellation, and in the end it fails as fail does
 * - results: gives "whole" (i64 [3]), "half" (f32) and "text" (u8)
 * - big: gives BIG_BYTES as "big"
 * - echo: gives argument "value" back as "value"
 * - labels: gives the batch's "y" as "labels"
 * - read: pulls "wide" and gives it as "wide"
 * - push_nan, push_shape, push_name: push what is not finite, of another shape, to no variable
 * - add_named: pulls the variable named by argument "name" (u8), of at most WIDE_ROWS elements,
 * gives it as "value", and pushes ones to it and to "wide"; with argument "started" it waits
 * before, as hold does
 * - touch_rows: pulls rows 7, 3 and 7 of the variable named by argument "name" (u8), gives them as
 *   "rows", and pushes them as the gradients of these rows
 * - die: kills its worker
 * - build_place: builds a resource that is its worker's index and the count of workers
 * - tell_place: gives those, of the resource "place", as "built_index" and "built_count" (i64), and
 *   its own as "index" and "count"
 * - build_counter: builds a resource that counts, from 0
 * - count_up: adds 1 to the resource "counter", which it has to itself meanwhile, and gives its
 *   worker's index as "index"
 * - tell_counter: gives what the resource "counter" has counted as "count"
 * - build: builds a resource whose result "value" is f32 ones like "wide"; with argument "started"
 *   it writes a line as hold does, with "release" it waits for that file; with "deaths" (i64) it
 *   aborts unless "started" has more lines than that by then
 * - push_built: pushes the result "value" of the resource "ones" to "wide"
 * - tell_ones: gives the number of elements of the result "value" of the resource "ones" as "count"
 * - remember: counts its calls on each slot; when the worker exits each slot writes "slot COUNT" to
 *   the file named by "path", and the worker "worker"
 * - tell_seed: gives its seed as "seed" and its closure's id as "closure" (both i64)
 * - echo_when, push_when: wait as hold does, then are as echo and push
 * - add_batches: pushes the sum of column 0 of "x", "x1" and "x2" to every element of "wide"
 */
#ifndef CADRE_TESTS_CONFORMANCE_FUNCTIONS_H
#define CADRE_TESTS_CONFORMANCE_FUNCTIONS_H

enum {
    WIDE_ROWS = 10,    /* of "wide", f32, which add_one and others push to */
    VISIT_ROWS = 1000, /* of "visits", f32: rows of data that can be told apart */
    BIG_BYTES = 48 << 20,
    TOIL_NAPS = 20,
    TOIL_NAP_MS = 5,
};

#endif
