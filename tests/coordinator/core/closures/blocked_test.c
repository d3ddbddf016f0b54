/* Closures that take results of others as arguments: how the queue blocks and frees them. */
#include "coordinator/core/closures/closure_queue.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(blocked, .timeout = 240);

enum { ENDED_MAX = 64 };

typedef struct {
    cadre_closure_queue_t queue;
    size_t count;
    struct {
        uint32_t number;
        int status;
        char text[CADRE_CLOSURE_ERROR_SIZE];
    } ended[ENDED_MAX];
} stage_t;

/* Takes what has ended since the last call; gives `self`. */
static stage_t *
drain(stage_t *self)
{
    cadre_closure_t *closure = NULL;
    while ((closure = cadre_closure_queue_take_ended(&self->queue))) {
        const char *text = closure->results ? closure->results->text : NULL;
        cr_assert_lt(self->count, ENDED_MAX);
        self->ended[self->count].number = closure->function;
        self->ended[self->count].status = closure->end_status;
        snprintf(self->ended[self->count++].text, CADRE_CLOSURE_ERROR_SIZE, "%s", text ? text : "");
        cadre_closure_destroy(&closure);
    }
    return self;
}

static void
open_stage(stage_t *self)
{
    *self = (stage_t){.count = 0};
    cadre_closure_queue_init(&self->queue, 8);
}

/* A closure known by `number` whose results somebody else may want; it takes "sum" of `from`, and
 * of `from_too`. */
static cadre_closure_t *
make(uint32_t number, cadre_results_t *from, cadre_results_t *from_too)
{
    cadre_closure_t *closure = cadre_closure_new(number);
    closure->results = cadre_results_new();
    if (from) {
        cadre_closure_add_argument(closure, "a", "sum", from);
    }
    if (from_too) {
        cadre_closure_add_argument(closure, "b", NULL, from_too);
    }
    return closure;
}

static cadre_closure_t *
put(stage_t *self, uint32_t number, cadre_results_t *from, cadre_results_t *from_too)
{
    cadre_closure_t *closure = make(number, from, from_too);
    cr_assert_eq(cadre_closure_queue_put(&self->queue, closure), 0);
    return closure;
}

/* Takes the next one, which must be `number`; begun as the dispatcher does it. */
static cadre_closure_t *
take(stage_t *self, uint32_t number)
{
    static uint64_t id = 0;
    cadre_closure_t *closure = cadre_closure_queue_take(&self->queue, 0, CADRE_QUEUE_NEW_TOO);
    cr_assert_not_null(closure, "nothing where %u was expected", number);
    cr_assert_eq(closure->function, number, "%u where %u was expected", closure->function, number);
    closure->id = closure->id ? closure->id : ++id;
    return closure;
}

static void
expect_none(stage_t *self)
{
    const cadre_abilities_t none = {.built = {.words = {0}}};
    cr_assert_null(
        cadre_closure_lanes_next(&self->queue.lanes, 0, CADRE_QUEUE_NEW_TOO, &none, NULL));
}

/* The results "sum", `count` times `value`, and "name". */
static void
finish_with(stage_t *self, cadre_closure_t *closure, int64_t count, int32_t value)
{
    static const char *const names[] = {"sum", "name"};
    int32_t *sum = cadre_calloc((size_t)count, sizeof(*sum));
    uint8_t name = 'n';
    for (int64_t i = 0; i < count; i++) {
        sum[i] = value;
    }
    cadre_tensor_t tensors[] = {{.dtype = CADRE_I32, .rank = 1, .shape = {count}, .data = sum},
                                {.dtype = CADRE_U8, .rank = 0, .data = &name}};
    cadre_tensor_list_t list = {.items = NULL};
    cr_assert_eq(cadre_tensor_list_encode(tensors, 2, CADRE_RESULT_SIZE_MAX, &list), 0);
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE_DONE};
    message.closure_done.names = (cadre_strs_t){names, 2};
    message.closure_done.tensors = cadre_tensor_list_items(&list);
    cadre_tensor_list_add_chunks(&list, &message);
    cadre_closure_queue_finish(&self->queue, closure, &(cadre_closure_end_t){.message = &message});
    cadre_message_fini(&message);
    cadre_tensor_list_fini(&list);
    free(sum);
}

static void
finish(stage_t *self, cadre_closure_t *closure)
{
    finish_with(self, closure, 1, 0);
}

static void
close_stage(stage_t *self)
{
    cr_expect_eq(self->queue.values_size_bytes, 0);
    cadre_closure_queue_fini(&self->queue);
}

Test(blocked, waits_for_all_of_its_arguments_and_then_comes_before_new_work)
{
    stage_t self;
    open_stage(&self);
    cadre_closure_t *first = put(&self, 1, NULL, NULL);
    cadre_closure_t *second = put(&self, 2, NULL, NULL);
    cadre_closure_t *third = put(&self, 3, first->results, second->results);
    put(&self, 4, NULL, NULL);
    cr_expect_eq(third->state, CADRE_CLOSURE_BLOCKED);
    cr_expect_eq(cadre_closure_queue_waiting(&self.queue), 4);
    first = take(&self, 1);
    second = take(&self, 2);
    finish_with(&self, second, 1, 7);
    cr_expect_eq(third->state, CADRE_CLOSURE_BLOCKED, "one is missing");
    finish_with(&self, first, 3, 5);
    cr_expect_eq(third->state, CADRE_CLOSURE_QUEUED);
    cr_expect_eq(self.queue.values_size_bytes, 3 * 4 + 1 + 4 + 1, "of both, all results");
    third = take(&self, 3);
    cr_assert_eq(cadre_closure_take_values(third), 0, "%s", cadre_error_text());
    cr_expect_eq(third->arguments[0].value.size_bytes, 3 * 4);
    cr_expect_eq(*(const int32_t *)cadre_chunk_data(third->arguments[0].value.chunks[0]), 5);
    cr_expect_eq(*(const int32_t *)cadre_chunk_data(third->arguments[1].value.chunks[0]), 7,
                 "without a name: the first result");
    cadre_closure_queue_put_back(&self.queue, third);
    third = take(&self, 3);
    cr_expect_eq(third->arguments[0].value.size_bytes, 3 * 4, "it has its values still");
    cr_expect_neq(self.queue.values_size_bytes, 0);
    finish(&self, third);
    cr_expect_eq(self.queue.values_size_bytes, 0);
    finish(&self, take(&self, 4));
    cr_expect(cadre_closure_queue_done(&self.queue));
    close_stage(&self);
}

Test(blocked, what_is_there_already_is_not_waited_for)
{
    stage_t self;
    open_stage(&self);
    cadre_results_t *results = cadre_results_ref(put(&self, 1, NULL, NULL)->results);
    finish_with(&self, take(&self, 1), 2, 3);
    cr_expect_eq(self.queue.values_size_bytes, 0, "nobody takes it");
    put(&self, 2, NULL, NULL);
    cadre_closure_t *closure = put(&self, 3, results, results);
    cr_expect_eq(closure->state, CADRE_CLOSURE_QUEUED);
    cr_expect_eq(self.queue.values_size_bytes, 2 * 4 + 1, "counted once");
    finish(&self, take(&self, 3));
    finish(&self, take(&self, 2));
    cadre_results_unref(&results);
    close_stage(&self);
}

Test(blocked, chains_go_one_after_the_other)
{
    stage_t self;
    open_stage(&self);
    cadre_results_t *last = NULL;
    for (uint32_t i = 1; i <= 5; i++) {
        last = put(&self, i, last, NULL)->results;
    }
    for (uint32_t i = 1; i <= 5; i++) {
        cadre_closure_t *closure = take(&self, i);
        expect_none(&self);
        cr_expect_not(cadre_closure_queue_done(&self.queue));
        finish(&self, closure);
    }
    cr_expect(cadre_closure_queue_done(&self.queue));
    close_stage(&self);
}

Test(blocked, who_waits_for_one_that_fails_fails_with_it)
{
    stage_t self;
    char text[CADRE_CLOSURE_ERROR_SIZE] = "";
    open_stage(&self);
    cadre_closure_t *first = put(&self, 1, NULL, NULL);
    cadre_closure_t *other = put(&self, 2, NULL, NULL);
    cadre_closure_t *second = put(&self, 3, first->results, other->results);
    put(&self, 4, second->results, NULL);
    put(&self, 5, other->results, NULL);
    first = take(&self, 1);
    cadre_results_t *results = cadre_results_ref(first->results);
    cadre_closure_queue_finish(
        &self.queue, first, &(cadre_closure_end_t){.status = CADRE_EFUNCTION, .text = "no luck"});
    cr_assert_eq(drain(&self)->count, 5);
    for (size_t i = 0; i < drain(&self)->count; i++) {
        bool needs = drain(&self)->ended[i].number == 1 || drain(&self)->ended[i].number >= 3;
        bool cancelled = drain(&self)->ended[i].number == 2 || drain(&self)->ended[i].number == 5;
        cr_expect_eq(drain(&self)->ended[i].status, cancelled ? CADRE_ECANCELLED : CADRE_EFUNCTION,
                     "%u: %d", drain(&self)->ended[i].number, drain(&self)->ended[i].status);
        cr_expect(cancelled || !needs || strcmp(drain(&self)->ended[i].text, "no luck") == 0);
    }
    cr_expect_eq(cadre_closure_queue_raise(&self.queue, text), CADRE_EFUNCTION);
    cr_expect_str_eq(text, "no luck", "those that fail with it are not counted");
    cadre_closure_t *late = make(6, results, NULL);
    cr_expect_eq(cadre_closure_argument_check(&late->arguments[0]), CADRE_EFUNCTION);
    cr_expect(strstr(cadre_error_text(), "argument a") && strstr(cadre_error_text(), "no luck"),
              "%s", cadre_error_text());
    cadre_closure_destroy(&late);
    cadre_results_unref(&results);
    close_stage(&self);
}

Test(blocked, cancelling_ends_what_is_blocked_and_ready)
{
    stage_t self;
    open_stage(&self);
    cadre_closure_t *first = put(&self, 1, NULL, NULL);
    cadre_closure_t *running = put(&self, 2, NULL, NULL);
    put(&self, 3, first->results, NULL);
    put(&self, 4, running->results, NULL);
    finish(&self, take(&self, 1)); /* 3 is ready */
    running = take(&self, 3);
    cadre_closure_queue_put_back(&self.queue, running); /* and begun */
    running = take(&self, 3);
    cadre_closure_queue_cancel(&self.queue);
    cr_expect_eq(drain(&self)->count, 3);
    cr_expect_eq(drain(&self)->ended[2].number == 4 || drain(&self)->ended[1].number == 4, true);
    cadre_closure_queue_put_back(&self.queue, running);
    cr_expect_eq(drain(&self)->ended[3].status, CADRE_ECANCELLED);
    cr_expect(cadre_closure_queue_done(&self.queue));
    cr_expect_not(cadre_closure_queue_is_cancelling(&self.queue));
    close_stage(&self);
}

Test(blocked, blocked_closures_fill_the_queue_like_others)
{
    stage_t self;
    open_stage(&self);
    cadre_closure_t *first = put(&self, 1, NULL, NULL);
    for (uint32_t i = 2; i <= 8; i++) {
        put(&self, i, first->results, NULL);
    }
    cadre_closure_t *late = make(9, NULL, NULL);
    cr_expect_eq(cadre_closure_queue_put(&self.queue, late), CADRE_EAGAIN);
    first = take(&self, 1);
    cr_expect_eq(cadre_closure_queue_put(&self.queue, late), 0);
    finish(&self, first);
    for (uint32_t i = 2; i <= 9; i++) {
        finish(&self, take(&self, i));
    }
    close_stage(&self);
}

/* 100 bytes of values: another closure that takes some waits at them, not below. */
Test(blocked, a_closure_with_such_arguments_waits_for_room_for_values)
{
    enum { NUMBERS = 25 }; /* of 4 bytes; and one byte more for the other result */
    stage_t self;
    open_stage(&self);
    cadre_closure_t *first = put(&self, 1, NULL, NULL);
    cadre_closure_t *second = put(&self, 2, first->results, NULL);
    cadre_closure_t *third = make(3, first->results, NULL);
    cadre_closure_t *plain = make(4, NULL, NULL);
    finish_with(&self, take(&self, 1), NUMBERS, 1);
    self.queue.values_size_max = 4 * NUMBERS + 1;
    cr_expect_eq(cadre_closure_queue_put(&self.queue, third), CADRE_EAGAIN, "at the limit");
    cr_expect_eq(cadre_closure_queue_put(&self.queue, plain), 0, "it brings none");
    self.queue.values_size_max++;
    cr_expect_eq(cadre_closure_queue_put(&self.queue, third), 0, "below it");
    second = take(&self, 2);
    finish(&self, second);
    finish(&self, take(&self, 3));
    finish(&self, take(&self, 4));
    close_stage(&self);
}

Test(blocked, values_beyond_twice_the_limit_fail_who_waits_for_them)
{
    stage_t self;
    char text[CADRE_CLOSURE_ERROR_SIZE] = "";
    open_stage(&self);
    cadre_closure_t *first = put(&self, 1, NULL, NULL);
    cadre_closure_t *second = put(&self, 2, NULL, NULL);
    put(&self, 3, first->results, NULL);
    put(&self, 4, second->results, NULL);
    self.queue.values_size_max = (4 * 10 + 1) / 2;
    first = take(&self, 1);
    second = take(&self, 2);
    finish_with(&self, first, 10, 1); /* 41 bytes: twice the limit and the odd one */
    cr_expect_eq(drain(&self)->count, 1, "at the limit");
    cadre_closure_t *third = take(&self, 3);
    finish_with(&self, second, 1, 1);
    cr_assert_eq(drain(&self)->count, 3);
    cr_expect_eq(drain(&self)->ended[1].number, 2);
    cr_expect_eq(drain(&self)->ended[1].status, 0, "who gives them has ended well");
    cr_expect_eq(drain(&self)->ended[2].number, 4);
    cr_expect_eq(drain(&self)->ended[2].status, CADRE_EFULL);
    cadre_closure_queue_finish(&self.queue, third,
                               &(cadre_closure_end_t){.status = CADRE_ECANCELLED});
    cr_expect_eq(cadre_closure_queue_raise(&self.queue, text), CADRE_EFULL);
    cr_expect(strstr(text, "no room"), "%s", text);
    close_stage(&self);
}

Test(blocked, arguments_that_are_not_there_or_too_large_are_told)
{
    stage_t self;
    open_stage(&self);
    cadre_results_t *results = cadre_results_ref(put(&self, 1, NULL, NULL)->results);
    finish_with(&self, take(&self, 1), CADRE_ARGUMENTS_SIZE_MAX / 4 - 1, 1);
    cadre_closure_t *closure = cadre_closure_new(2);
    cadre_closure_add_argument(closure, "a", "product", results);
    cr_expect_eq(cadre_closure_argument_check(&closure->arguments[0]), CADRE_ENOTFOUND);
    cr_expect_eq(cadre_closure_take_values(closure), CADRE_ENOTFOUND);
    cr_expect(strstr(cadre_error_text(), "product"), "%s", cadre_error_text());
    cadre_closure_destroy(&closure);
    closure = cadre_closure_new(3);
    cadre_closure_add_argument(closure, "a", "sum", results);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(cadre_closure_take_values(closure), 0, "below the limit");
        cadre_closure_add_argument(closure, "b", "name", results);
    }
    cr_expect_eq(cadre_closure_take_values(closure), 0, "at the limit");
    cadre_closure_add_argument(closure, "b", "name", results);
    cr_expect_eq(cadre_closure_take_values(closure), CADRE_ETOOLARGE);
    cr_expect(strstr(cadre_error_text(), "argument b"), "%s", cadre_error_text());
    cadre_closure_destroy(&closure);
    cadre_results_unref(&results);
    close_stage(&self);
}

Test(blocked, work_for_one_worker_is_blocked_too_and_not_waited_for)
{
    stage_t self;
    open_stage(&self);
    cadre_closure_t *first = put(&self, 1, NULL, NULL);
    cadre_closure_t *tagged = make(2, first->results, NULL);
    tagged->tag = 0;
    cr_assert_eq(cadre_closure_queue_put(&self.queue, tagged), 0);
    first = take(&self, 1);
    finish(&self, first);
    cr_expect(cadre_closure_queue_done(&self.queue));
    finish(&self, take(&self, 2));
    close_stage(&self);
}

/* --- results within synchronous steps --- */

enum { TAG = 1, STEP = 4 };

/* Stages that are filled with steps of STEP closures. */
static void
open_synchronous_stage(stage_t *self)
{
    open_stage(self);
    cadre_closure_queue_set_pace(&self->queue, CADRE_SYNC, STEP, 0);
}

/* Puts a closure that may push, which has a turn; CADRE_EAGAIN where there is no room for it. */
static int
try_to_put_in_step(stage_t *self, uint32_t number, cadre_results_t *from, cadre_closure_t **made)
{
    *made = make(number, from, NULL);
    (*made)->may_push = true;
    return cadre_closure_queue_put(&self->queue, *made);
}

static cadre_closure_t *
put_tagged(stage_t *self, uint32_t number, cadre_results_t *from)
{
    cadre_closure_t *closure = make(number, from, NULL);
    closure->tag = TAG;
    cr_assert_eq(cadre_closure_queue_put(&self->queue, closure), 0);
    return closure;
}

/* Ends the step whose only closure is held. */
static void
end_step(stage_t *self, cadre_closure_t *held)
{
    cr_assert_neq(cadre_pace_whole_step(&self->queue.pace), 0);
    finish(self, held);
    cadre_closure_queue_end_step(&self->queue);
}

/* The step waited for its closure, that one for the tagged one, and the tagged one for the step. */
Test(blocked, a_step_has_no_closure_that_waits_for_it_through_a_tagged_one)
{
    stage_t self;
    cadre_closure_t *first = NULL;
    cadre_closure_t *second = NULL;
    open_synchronous_stage(&self);
    cr_assert_eq(try_to_put_in_step(&self, 1, NULL, &first), 0);
    cadre_closure_t *between = put_tagged(&self, 2, first->results);
    cr_assert_eq(try_to_put_in_step(&self, 3, between->results, &second), 0);
    cr_expect_neq(second->turn, first->turn);
    cadre_closure_queue_hold(&self.queue, take(&self, 1));
    end_step(&self, first);
    cr_expect_eq(between->state, CADRE_CLOSURE_QUEUED);
    cadre_closure_queue_close(&self.queue);
    close_stage(&self);
}

/* Fills the queue with tagged closures that take the first one's result; that is in flight. Returns
 * a closure that finds no room. */
static cadre_closure_t *
fill_behind(stage_t *self, cadre_closure_t **first)
{
    cr_assert_eq(try_to_put_in_step(self, 1, NULL, first), 0);
    for (size_t i = 0; i < self->queue.capacity; i++) {
        put_tagged(self, 2, (*first)->results);
    }
    cadre_closure_t *refused = make(3, (*first)->results, NULL);
    refused->tag = TAG;
    cr_assert_eq(take(self, 1), *first);
    return refused;
}

static void
expect_no_room(stage_t *self, cadre_closure_t *refused)
{
    cr_expect_eq(cadre_closure_queue_put(&self->queue, refused), CADRE_EAGAIN);
}

/* Nothing but the end of the step made room, and nothing but room would have filled the step. */
Test(blocked, a_step_that_keeps_the_queue_full_ends_short)
{
    stage_t self;
    cadre_closure_t *first = NULL;
    open_synchronous_stage(&self);
    cadre_closure_t *refused = fill_behind(&self, &first);
    expect_no_room(&self, refused);
    cr_expect_eq(cadre_pace_whole_step(&self.queue.pace), 0);
    cadre_closure_queue_hold(&self.queue, first);
    end_step(&self, first);
    cadre_closure_destroy(&refused);
    cadre_closure_queue_close(&self.queue);
    close_stage(&self);
}

Test(blocked, a_step_ends_short_only_when_nothing_else_can_make_room)
{
    stage_t self;
    cadre_closure_t *first = NULL;
    cadre_closure_t *next = NULL;
    open_synchronous_stage(&self);
    cadre_closure_t *refused = fill_behind(&self, &first);
    cr_assert_eq(try_to_put_in_step(&self, 4, NULL, &next), 0);
    cr_expect_eq(next->turn, first->turn);
    expect_no_room(&self, refused);
    cadre_closure_queue_hold(&self.queue, first);
    cr_expect_eq(cadre_pace_whole_step(&self.queue.pace), 0, "one closure is queued");
    next = take(&self, 4);
    expect_no_room(&self, refused);
    cr_expect_eq(cadre_pace_whole_step(&self.queue.pace), 0, "one closure is in flight");
    cadre_closure_queue_finish(&self.queue, next, &(cadre_closure_end_t){.status = CADRE_OK});
    end_step(&self, first);
    cadre_closure_destroy(&refused);
    cadre_closure_queue_close(&self.queue);
    close_stage(&self);
}

Test(blocked, a_step_stays_open_where_nobody_waits_for_room)
{
    stage_t self;
    cadre_closure_t *first = NULL;
    open_synchronous_stage(&self);
    cr_assert_eq(try_to_put_in_step(&self, 1, NULL, &first), 0);
    for (size_t i = 0; i < self.queue.capacity; i++) {
        put_tagged(&self, 2, first->results);
    }
    cadre_closure_queue_hold(&self.queue, take(&self, 1));
    cr_expect_eq(cadre_pace_whole_step(&self.queue.pace), 0);
    cadre_closure_queue_cut_short(&self.queue);
    end_step(&self, first);
    cadre_closure_queue_close(&self.queue);
    close_stage(&self);
}

/* Puts a closure that pushes and reads a batch of this dataset, as most do that train. */
static cadre_closure_t *
put_with_batch(stage_t *self, uint32_t number, uint64_t dataset)
{
    enum { ITEMS = 4 }; /* of a batch in the message CLOSURE */
    cadre_closure_t *closure = make(number, NULL, NULL);
    closure->may_push = true;
    closure->batches = cadre_calloc(ITEMS, sizeof(*closure->batches));
    closure->batches[0] = dataset;
    closure->batch_items = ITEMS;
    cr_assert_eq(cadre_closure_queue_put(&self->queue, closure), 0);
    return closure;
}

static void
begin_and_finish(stage_t *self, cadre_closure_t *closure)
{
    cr_assert_eq(closure->state, CADRE_CLOSURE_QUEUED);
    cadre_closure_queue_begin(&self->queue, closure);
    closure->id = closure->function;
    finish(self, closure);
}

/* A worker starts what reads no batch while it still reads those of closures before, and may have
 * one dataset open before another. */
Test(blocked, in_series_only_closures_that_read_one_dataset_start_behind_each_other)
{
    stage_t self;
    cadre_closure_t *without = NULL;
    open_stage(&self);
    cadre_closure_queue_set_pace(&self.queue, CADRE_SYNC, 1, 0);
    cadre_pace_set_serial(&self.queue.pace, 8);
    cadre_closure_t *first = put_with_batch(&self, 1, 7);
    cadre_closure_t *second = put_with_batch(&self, 2, 7);
    cr_assert_eq(try_to_put_in_step(&self, 3, NULL, &without), 0);
    cadre_closure_t *behind = put_with_batch(&self, 4, 8);
    cadre_closure_t *last = put_with_batch(&self, 5, 8);
    cr_expect_eq(second->state, CADRE_CLOSURE_LATER, "another dataset than before the first");
    begin_and_finish(&self, first);
    cr_expect_eq(without->state, CADRE_CLOSURE_LATER);
    begin_and_finish(&self, second);
    cr_expect_eq(behind->state, CADRE_CLOSURE_LATER);
    begin_and_finish(&self, without);
    cr_expect_eq(last->state, CADRE_CLOSURE_LATER);
    begin_and_finish(&self, behind);
    cr_expect_eq(last->state, CADRE_CLOSURE_QUEUED);
    cr_expect_eq(put_with_batch(&self, 6, 8)->state, CADRE_CLOSURE_QUEUED);
    cadre_closure_queue_close(&self.queue);
    close_stage(&self);
}
