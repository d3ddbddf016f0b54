/* Futures, with a coordinator that has a core and a gate but no thread. */
#include "coordinator/api/future.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "common/tensor/tensor.h"
#include "coordinator/coordinator.h"

TestSuite(future, .timeout = 240);

enum { SOON_MS = 10, LONG_MS = 120000 };

typedef struct {
    cadre_coordinator_t coordinator;
    cadre_closure_t *closure;
    cadre_future_t *future;
} stage_t;

/* A closure in the queue and its future. */
static stage_t *
stage_open(void)
{
    stage_t *self = cadre_calloc(1, sizeof(*self));
    cadre_core_options_t options = {
        .ps_count = 1, .job = "test", .queue_capacity = 10, .lease_ms = 10000, .resend_ms = 1000};
    cr_assert_eq(cadre_gate_open(&self->coordinator.gate), 0);
    cadre_core_init(&self->coordinator.core, &options, 0);
    bool is_new = false;
    cadre_function_t like = {.kind = CADRE_FUNCTION_NATIVE, .name = (char *)(uintptr_t) "work"};
    cadre_function_t *function = NULL;
    cr_assert_eq(
        cadre_catalogue_add_function(&self->coordinator.core.catalogue, &like, &function, &is_new),
        0);
    self->closure = cadre_closure_new(function->id);
    self->closure->wants_results = true;
    cr_assert_eq(cadre_closure_queue_put(&self->coordinator.core.queue, self->closure), 0);
    self->future = cadre_future_new(&self->coordinator, self->closure);
    return self;
}

/* The order in which cadre_coordinator_close does it. */
static void
close_coordinator(stage_t *self)
{
    cadre_gate_lock(self->coordinator.gate);
    self->coordinator.gate->closed = true;
    cadre_core_close(&self->coordinator.core);
    cadre_coordinator_tell_ended(&self->coordinator);
    cadre_core_fini(&self->coordinator.core);
    cadre_gate_broadcast(self->coordinator.gate);
    cadre_gate_unlock(self->coordinator.gate);
    cadre_gate_unref(&self->coordinator.gate);
}

static void
stage_close(stage_t **self_p)
{
    stage_t *self = *self_p;
    *self_p = NULL;
    close_coordinator(self);
    cadre_future_destroy(&self->future);
    free(self);
}

/* The closure ends, as the dispatcher would have it. */
static void
end_with(stage_t *self, const cadre_closure_end_t *end)
{
    cadre_gate_lock(self->coordinator.gate);
    cadre_closure_queue_finish(&self->coordinator.core.queue, self->closure, end);
    cadre_core_tick(&self->coordinator.core, 0, false);
    cadre_coordinator_tell_ended(&self->coordinator);
    cadre_gate_broadcast(self->coordinator.gate);
    cadre_gate_unlock(self->coordinator.gate);
}

/* With two results: "loss", a scalar, and "hits", two whole numbers. */
static void
end_well(stage_t *self)
{
    static const char *const names[] = {"loss", "hits"};
    float loss = 0.5F;
    int32_t hits[] = {7, 9};
    cadre_tensor_t tensors[] = {{.dtype = CADRE_F32, .rank = 0, .data = &loss},
                                {.dtype = CADRE_I32, .rank = 1, .shape = {2}, .data = hits}};
    cadre_tensor_list_t list = {.items = NULL};
    cr_assert_eq(cadre_tensor_list_encode(tensors, 2, CADRE_RESULT_SIZE_MAX, &list), 0);
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE_DONE};
    message.closure_done.names = (cadre_strs_t){names, 2};
    message.closure_done.tensors = cadre_tensor_list_items(&list);
    cadre_tensor_list_add_chunks(&list, &message);
    end_with(self, &(cadre_closure_end_t){.message = &message});
    cadre_message_fini(&message);
    cadre_tensor_list_fini(&list);
}

Test(future, waits_until_its_deadline_for_a_closure_that_has_not_ended)
{
    stage_t *self = stage_open();
    cadre_tensor_t value = {.data = NULL};
    cr_assert_eq(cadre_future_wait(self->future, 0), CADRE_ETIMEOUT);
    cr_assert_eq(cadre_future_wait(self->future, SOON_MS), CADRE_ETIMEOUT);
    cr_assert(strstr(cadre_error_text(), "a closure"));
    cr_assert(strstr(cadre_error_text(), "closure (function work) waits for a free worker"));
    cr_assert_eq(cadre_future_fetch(self->future, NULL, &value, SOON_MS), CADRE_ETIMEOUT);
    end_well(self);
    cr_assert_eq(cadre_future_wait(self->future, 0), 0, "it can be waited for again");
    stage_close(&self);
}

Test(future, frees_what_a_tensor_held_before)
{
    stage_t *self = stage_open();
    float mine[] = {1, 2};
    cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 1, .shape = {2}, .data = mine};
    end_well(self);
    for (int round = 0; round < 3; round++) { /* a view, then what it read itself */
        cr_assert_eq(cadre_future_fetch(self->future, "hits", &value, 0), 0);
        cr_assert_eq(((const int32_t *)value.data)[1], 9);
    }
    cr_assert_eq(cadre_future_fetch(self->future, "accuracy", &value, 0), CADRE_ENOTFOUND);
    cr_assert_eq(((const int32_t *)value.data)[1], 9, "a failure leaves it as it was");
    cadre_tensor_fini(&value);
    cr_assert_eq(mine[0], 1);
    stage_close(&self);
}

Test(future, gives_results_by_name_as_often_as_asked)
{
    stage_t *self = stage_open();
    end_well(self);
    for (int round = 0; round < 2; round++) {
        cadre_tensor_t value = {.data = NULL};
        cr_assert_eq(cadre_future_fetch(self->future, "hits", &value, 0), 0);
        cr_assert_eq(value.dtype, CADRE_I32);
        cr_assert_eq(((const int32_t *)value.data)[1], 9);
        cadre_tensor_fini(&value);
        cr_assert_eq(cadre_future_fetch(self->future, NULL, &value, 0), 0, "the first");
        cr_assert_eq(value.rank, 0);
        cr_assert_eq(((const float *)value.data)[0], 0.5F);
        cadre_tensor_fini(&value);
        cr_assert_eq(cadre_future_fetch(self->future, "accuracy", &value, 0), CADRE_ENOTFOUND);
        cr_assert(strstr(cadre_error_text(), "accuracy"));
    }
    stage_close(&self);
}

Test(future, of_a_closure_without_results_has_none_to_fetch)
{
    stage_t *self = stage_open();
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE_DONE};
    cadre_tensor_t value = {.data = NULL};
    end_with(self, &(cadre_closure_end_t){.message = &message});
    cr_assert_eq(cadre_future_wait(self->future, 0), 0);
    cr_assert_eq(cadre_future_fetch(self->future, NULL, &value, 0), CADRE_ENOTFOUND);
    stage_close(&self);
}

Test(future, a_report_with_fewer_results_than_names_is_malformed)
{
    static const char *const names[] = {"loss", "hits"};
    stage_t *self = stage_open();
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE_DONE};
    cadre_tensor_t value = {.data = NULL};
    message.closure_done.names = (cadre_strs_t){names, 2};
    end_with(self, &(cadre_closure_end_t){.message = &message});
    cr_assert_eq(cadre_future_fetch(self->future, "hits", &value, 0), CADRE_EMALFORMED);
    stage_close(&self);
}

Test(future, says_how_its_closure_failed_every_time)
{
    stage_t *self = stage_open();
    cadre_tensor_t value = {.data = NULL};
    end_with(self, &(cadre_closure_end_t){.status = CADRE_EDATA, .text = "line 7 is no number"});
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(cadre_future_wait(self->future, 0), CADRE_EDATA);
        cr_assert_str_eq(cadre_error_text(), "line 7 is no number");
        cr_assert_eq(cadre_future_fetch(self->future, NULL, &value, 0), CADRE_EDATA);
        cr_assert_str_eq(cadre_error_text(), "line 7 is no number");
    }
    stage_close(&self);
}

Test(future, its_descriptor_becomes_readable_at_the_end_or_is_when_asked_for_later)
{
    for (int early = 0; early < 2; early++) {
        stage_t *self = stage_open();
        int fd = -1;
        if (early) {
            cr_assert_eq(cadre_future_fd(self->future, &fd), 0);
            cr_assert_eq(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
        }
        end_well(self);
        cr_assert_eq(cadre_future_fd(self->future, &fd), 0);
        cr_assert_eq(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 1);
        stage_close(&self);
    }
}

Test(future, knows_the_id_of_its_closure_before_and_after_the_end)
{
    stage_t *self = stage_open();
    cr_assert_eq(cadre_future_closure_id(self->future), 0);
    self->closure->id = 12;
    cr_assert_eq(cadre_future_closure_id(self->future), 12);
    end_well(self);
    cr_assert_eq(cadre_future_closure_id(self->future), 12);
    stage_close(&self);
}

Test(future, that_is_dropped_leaves_its_closure_running_without_results)
{
    stage_t *self = stage_open();
    cadre_future_destroy(&self->future);
    cr_assert_null(self->future);
    cr_assert_not(self->closure->wants_results);
    cr_assert_null(self->closure->results->future);
    cr_assert_eq(self->coordinator.core.queue.lanes.common, 1);
    end_well(self);
    cadre_future_destroy(&self->future);
    stage_close(&self);
}

Test(future, outlives_its_coordinator_and_says_so)
{
    stage_t *self = stage_open();
    cadre_future_t *future = self->future;
    close_coordinator(self);
    free(self);
    cr_assert_eq(cadre_future_wait(future, LONG_MS), CADRE_ECLOSED);
    cr_assert_eq(cadre_future_wait(future, 0), CADRE_ECLOSED);
    cadre_future_destroy(&future);
}

Test(future, keeps_its_results_when_the_coordinator_is_gone)
{
    stage_t *self = stage_open();
    cadre_future_t *future = self->future;
    cadre_tensor_t value = {.data = NULL};
    end_well(self);
    close_coordinator(self);
    free(self);
    cr_assert_eq(cadre_future_fetch(future, "loss", &value, 0), 0);
    cadre_tensor_fini(&value);
    cadre_future_destroy(&future);
}

Test(future, a_wait_is_ended_by_an_interruption_and_by_the_end_of_the_job)
{
    stage_t *self = stage_open();
    cadre_coordinator_interrupt(&self->coordinator, true);
    cr_assert_eq(cadre_future_wait(self->future, LONG_MS), CADRE_EINTERRUPTED);
    cadre_coordinator_interrupt(&self->coordinator, false);
    self->coordinator.core.fatal = CADRE_EUNAVAILABLE;
    snprintf(self->coordinator.core.fatal_text, sizeof(self->coordinator.core.fatal_text),
             "ps 1 is lost");
    cr_assert_eq(cadre_future_wait(self->future, LONG_MS), CADRE_EUNAVAILABLE);
    cr_assert_str_eq(cadre_error_text(), "ps 1 is lost");
    end_well(self);
    cr_assert_eq(cadre_future_wait(self->future, LONG_MS), 0, "what has ended has ended");
    stage_close(&self);
}

Test(future, all_of_several_are_waited_for_and_the_first_failure_in_order_is_told)
{
    stage_t *stages[3];
    cadre_future_t *futures[3];
    for (int i = 0; i < 3; i++) {
        stages[i] = stage_open();
        futures[i] = stages[i]->future;
    }
    end_well(stages[0]);
    end_with(stages[2], &(cadre_closure_end_t){.status = CADRE_EDATA, .text = "third"});
    cr_assert_eq(cadre_future_wait_all(futures, 3, SOON_MS), CADRE_ETIMEOUT);
    end_with(stages[1], &(cadre_closure_end_t){.status = CADRE_EFUNCTION, .text = "second"});
    cr_assert_eq(cadre_future_wait_all(futures, 3, SOON_MS), CADRE_EFUNCTION);
    cr_assert_str_eq(cadre_error_text(), "second");
    cr_assert_eq(cadre_future_wait_all(futures, 1, SOON_MS), 0);
    cr_assert_eq(cadre_future_wait_all(NULL, 0, SOON_MS), 0);
    for (int i = 0; i < 3; i++) {
        stage_close(&stages[i]);
    }
}

static void *
end_later(void *argument)
{
    stage_t *self = argument;
    poll(NULL, 0, 20);
    end_well(self);
    return NULL;
}

Test(future, an_end_on_another_thread_ends_the_wait_at_once)
{
    stage_t *self = stage_open();
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, end_later, self), 0);
    int64_t begun_ms = cadre_clock_now_ms();
    cr_assert_eq(cadre_future_wait(self->future, LONG_MS), 0);
    cr_assert_lt(cadre_clock_now_ms() - begun_ms, LONG_MS / 2);
    pthread_join(thread, NULL);
    stage_close(&self);
}
