/* Workers that lack native functions or data, or whose data differ. */
#include "coordinator/core/provisioning/worker_admission.h"

#include "coordinator/status_json.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(worker_admission, .timeout = 60);

enum { GOOD = 4711, OTHER = 4712 }; /* hashes of rows */

static fixture_t *
new_cluster(uint32_t workers)
{
    fixture_t *self = cluster(workers);
    fixture_function(self);
    return self;
}

/* Time passes in steps, as it does for a coordinator that is alive; workers are heard meanwhile. */
static void
pass(fixture_t *self, uint64_t ms)
{
    for (uint64_t end_ms = self->now_ms + ms; self->now_ms < end_ms;) {
        self->now_ms += end_ms - self->now_ms < 100 ? end_ms - self->now_ms : 100;
        for (uint32_t i = 0; i < self->core.membership.worker_capacity; i++) {
            cadre_member_t *member = self->core.membership.workers[i];
            if (member) {
                cadre_membership_heard(member, self->now_ms);
            }
        }
        cadre_membership_heard(self->core.membership.ps[0], self->now_ms);
        fixture_turn(self);
    }
}

static void
say_lacks(fixture_t *self, uint32_t worker, uint64_t sequence, uint64_t function)
{
    cadre_task_t task = fixture_worker(worker);
    cadre_message_t message = fixture_message(&task, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat = (cadre_heartbeat_message_t){.sequence = sequence, .lacks = {&function, 1}};
    fixture_say(self, &task, &message);
}

static void
say_data(fixture_t *self, uint32_t worker, int status, uint64_t rows, uint64_t hash)
{
    cadre_task_t task = fixture_worker(worker);
    cadre_message_t message = fixture_message(&task, CADRE_MESSAGE_DATASET_READY);
    message.dataset_ready = (cadre_dataset_ready_message_t){.id = 1,
                                                            .status = (uint64_t)-status,
                                                            .text = status < 0 ? "no file a" : "",
                                                            .rows = rows,
                                                            .features = 4,
                                                            .label_dtype = CADRE_I32,
                                                            .classes = 3,
                                                            .hash = hash};
    fixture_say(self, &task, &message);
}

static cadre_dataset_t *
add_dataset(fixture_t *self)
{
    cadre_dataset_t *dataset = NULL;
    cr_assert_eq(cadre_catalogue_add_dataset(&self->core.catalogue, "train", "{}", &dataset), 0);
    cadre_announcements_tell_dataset(&self->core.announcements, dataset);
    return dataset;
}

static cadre_closure_t *
schedule_reader(fixture_t *self, uint32_t number, uint32_t tag)
{
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->variables = number;
    closure->tag = tag;
    closure->batches = cadre_calloc(4, sizeof(uint64_t));
    closure->batches[0] = 1;
    closure->batches[2] = number;
    closure->batches[3] = 1;
    closure->batch_items = 4;
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    return closure;
}

static size_t
given(const fixture_t *self, uint32_t worker)
{
    cadre_task_t task = fixture_worker(worker);
    return fixture_count(self, &task, CADRE_MESSAGE_CLOSURE);
}

static size_t
count_logged(const fixture_t *self, const char *part)
{
    size_t count = 0;
    for (size_t i = 0; i < self->event_count; i++) {
        count += self->events[i].kind == CADRE_EFFECT_LOG && strstr(self->events[i].text, part);
    }
    return count;
}

/* --- functions --- */

Test(worker_admission, a_worker_that_lacks_a_function_gets_no_closures_of_it_and_the_others_do)
{
    fixture_t *self = new_cluster(2);
    say_lacks(self, 0, 1, 1);
    say_lacks(self, 0, 2, 1);
    say_lacks(self, 0, 3, 99); /* nobody knows it */
    for (uint32_t i = 0; i < 4; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    cr_expect_eq(given(self, 0), 0);
    cr_expect_eq(given(self, 1), 2, "as many as its credit");
    cr_expect_eq(count_logged(self, "worker=0 process=4711 to=\"function work\" why=\"it has no "
                                    "native function work (--native FILE)\""),
                 1, "once");
    cadre_task_t other = fixture_worker(1);
    fixture_done(self, &other, 1, 1);
    fixture_done(self, &other, 2, 1);
    pass(self, CADRE_UNSERVED_MS + 1000);
    cr_expect_eq(given(self, 1), 4);
    cr_expect_eq(self->core.queue.own.error, 0);
    fixture_destroy(&self);
}

Test(worker_admission, a_closure_that_comes_back_as_unable_runs_elsewhere)
{
    fixture_t *self = new_cluster(2);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_turn(self);
    cr_assert_eq(given(self, 0), 1);
    fixture_failed(self, &worker, 1, 1, CADRE_FAILURE_UNABLE, "no such function");
    fixture_schedule(self, 2);
    fixture_turn(self);
    cr_expect_eq(given(self, 0), 1);
    cr_expect_eq(given(self, 1), 2);
    cr_expect_eq(count_logged(self, "to=\"function work\""), 1);
    cr_expect_eq(self->ended_count, 0);
    fixture_destroy(&self);
}

Test(worker_admission, what_no_worker_can_run_fails_when_its_time_is_over)
{
    fixture_t *self = new_cluster(2);
    say_lacks(self, 0, 1, 1);
    say_lacks(self, 1, 1, 1);
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    pass(self, CADRE_UNSERVED_MS - 100);
    cr_expect_eq(self->ended_count, 0);
    pass(self, 300);
    cr_assert_eq(self->ended_count, 2);
    cr_expect_eq(self->ended[0].status, CADRE_ENOTFOUND);
    cr_expect_str_eq(self->ended[0].text,
                     "function work: none of the 2 workers can run it: worker 0: it has no native "
                     "function work (--native FILE)");
    cr_expect_eq(self->ended[1].status, CADRE_ECANCELLED, "as after any failure");
    fixture_destroy(&self);
}

Test(worker_admission, a_worker_that_joins_in_time_runs_it)
{
    fixture_t *self = new_cluster(1);
    cadre_task_t late = fixture_worker(1);
    say_lacks(self, 0, 1, 1);
    fixture_schedule(self, 1);
    pass(self, CADRE_UNSERVED_MS - 500);
    fixture_hello(self, &late);
    pass(self, 2000);
    cr_expect_eq(given(self, 1), 1);
    cr_expect_eq(self->ended_count, 0);
    fixture_destroy(&self);
}

Test(worker_admission, a_worker_that_was_started_again_is_judged_anew)
{
    fixture_t *self = new_cluster(1);
    cadre_task_t worker = fixture_worker(0);
    say_lacks(self, 0, 1, 1);
    cr_expect_eq(self->core.admission.lacks, 1);
    fixture_gone(self, &worker);
    cr_expect_eq(self->core.admission.lacks, 0);
    cadre_task_t again = {CADRE_ROLE_WORKER, 0, 9000};
    fixture_hello(self, &again);
    fixture_schedule(self, 1);
    fixture_turn(self);
    cr_expect_eq(fixture_count(self, &again, CADRE_MESSAGE_CLOSURE), 1);
    fixture_destroy(&self);
}

Test(worker_admission, a_closure_for_a_worker_that_lacks_its_function_fails)
{
    fixture_t *self = new_cluster(2);
    say_lacks(self, 1, 1, 1);
    cadre_closure_t *closure = cadre_closure_new(1);
    closure->tag = 1;
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    pass(self, CADRE_UNSERVED_MS + 500);
    cr_assert_eq(self->ended_count, 1);
    cr_expect_eq(self->ended[0].status, CADRE_ENOTFOUND);
    cr_expect_not_null(strstr(self->ended[0].text, "the worker that it is for cannot run it: "
                                                   "worker 1: it has no native function work"));
    fixture_destroy(&self);
}

/* The time of one closure is not that of the next. */
Test(worker_admission, the_time_begins_anew_when_there_was_a_worker_meanwhile)
{
    fixture_t *self = new_cluster(1);
    cadre_task_t good = fixture_worker(1);
    say_lacks(self, 0, 1, 1);
    fixture_schedule(self, 1);
    pass(self, CADRE_UNSERVED_MS - 1000);
    fixture_hello(self, &good);
    pass(self, 1000);
    cr_assert_eq(given(self, 1), 1);
    fixture_gone(self, &good);
    pass(self, CADRE_UNSERVED_MS - 500);
    cr_expect_eq(self->ended_count, 0);
    pass(self, 1000);
    cr_expect_eq(self->ended_count, 1);
    fixture_destroy(&self);
}

Test(worker_admission, closures_whose_resource_nobody_can_build_fail)
{
    fixture_t *self = new_cluster(1);
    bool is_new = false;
    cadre_function_t like = {.kind = CADRE_FUNCTION_NATIVE, .name = (char *)(uintptr_t) "other"};
    cadre_function_t *other = NULL;
    cr_assert_eq(cadre_catalogue_add_function(&self->core.catalogue, &like, &other, &is_new), 0);
    cadre_closure_t *call = cadre_closure_new(other->id);
    cadre_resource_t *resource = NULL;
    cr_assert_eq(cadre_catalogue_add_resource(&self->core.catalogue, "r", &call, &resource), 0);
    cadre_resources_announce(&self->core.resources);
    say_lacks(self, 0, 1, other->id);
    cadre_closure_t *closure = cadre_closure_new(1);
    closure->resources = cadre_calloc(1, sizeof(uint64_t));
    closure->resources[closure->resource_count++] = resource->id;
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    pass(self, CADRE_UNSERVED_MS + 500);
    cr_assert_eq(self->ended_count, 1);
    cr_expect_not_null(strstr(self->ended[0].text, "it has no native function other"));
    cr_expect_not_null(strstr(self->ended[0].text, "resource r"));
    cadre_task_t worker = fixture_worker(0);
    fixture_gone(self, &worker);
    cr_expect_eq(resource->suspicion.deaths, 0, "it was not being built");
    fixture_destroy(&self);
}

Test(worker_admission, a_resource_is_not_on_trial_where_it_cannot_be_built)
{
    fixture_t *self = new_cluster(1);
    cadre_closure_t *call = cadre_closure_new(1);
    cadre_resource_t *resource = NULL;
    cr_assert_eq(cadre_catalogue_add_resource(&self->core.catalogue, "r", &call, &resource), 0);
    cadre_member_t *member = self->core.membership.workers[0];
    resource->trial = member->task.incarnation;
    member->trial = resource->id;
    say_lacks(self, 0, 1, 1);
    cr_expect_eq(resource->trial, 0);
    cr_expect_eq(member->trial, 0);
    fixture_destroy(&self);
}

/* --- data --- */

Test(worker_admission, one_worker_says_what_the_data_are)
{
    fixture_t *self = new_cluster(1);
    cadre_dataset_t *dataset = add_dataset(self);
    say_data(self, 0, 0, 150, GOOD);
    cr_expect(dataset->opened);
    cr_expect_eq(dataset->status, 0);
    cr_expect_eq(dataset->info.rows, 150);
    cr_expect_eq(dataset->info.label, CADRE_I32);
    fixture_destroy(&self);
}

Test(worker_admission, rows_that_most_workers_have_are_the_jobs_whoever_says_so_first)
{
    fixture_t *self = new_cluster(3);
    cadre_dataset_t *dataset = add_dataset(self);
    say_data(self, 2, 0, 149, OTHER);
    fixture_turn(self);
    cr_expect_not(dataset->opened, "two have not answered");
    say_data(self, 0, 0, 150, GOOD);
    cr_expect_not(dataset->opened);
    say_data(self, 1, 0, 150, GOOD);
    cr_assert(dataset->opened);
    cr_expect_eq(dataset->info.rows, 150);
    for (uint32_t i = 0; i < 6; i++) {
        schedule_reader(self, i, CADRE_TAG_NONE);
    }
    fixture_turn(self);
    cr_expect_eq(given(self, 0), 2);
    cr_expect_eq(given(self, 1), 2);
    cr_expect_eq(given(self, 2), 0);
    cr_expect_eq(count_logged(self, "worker=2 process=4711 to=\"dataset train\" why=\"its data "
                                    "differ: it has 149 rows of 4 features, hash "
                                    "0000000000001268, and the job 150 rows of 4 features, hash "
                                    "0000000000001267\""),
                 1);
    char *json = cadre_core_status_json(&self->core, self->now_ms);
    cr_expect_not_null(strstr(json, "\"lacks\":[{\"what\":\"dataset train\",\"why\":\"its data"));
    free(json);
    fixture_schedule(self, 7); /* that reads nothing */
    fixture_turn(self);
    cr_expect_eq(given(self, 2), 1, "it does what it can");
    fixture_destroy(&self);
}

Test(worker_admission, as_many_rows_of_another_content_differ)
{
    fixture_t *self = new_cluster(1);
    cadre_task_t late = fixture_worker(1);
    add_dataset(self);
    say_data(self, 0, 0, 150, GOOD);
    fixture_hello(self, &late);
    fixture_turn(self);
    cr_expect_eq(fixture_count(self, &late, CADRE_MESSAGE_DATASET), 1);
    say_data(self, 1, 0, 150, OTHER);
    fixture_turn(self);
    cr_expect_eq(count_logged(self, "its data differ"), 1);
    fixture_destroy(&self);
}

Test(worker_admission, who_has_not_answered_is_asked_again_and_gets_no_closures_that_read)
{
    fixture_t *self = new_cluster(2);
    cadre_task_t slow = fixture_worker(1);
    cadre_dataset_t *dataset = add_dataset(self);
    say_data(self, 0, 0, 150, GOOD);
    pass(self, CADRE_UNSERVED_MS - 100);
    cr_expect_not(dataset->opened);
    pass(self, 100);
    cr_expect(dataset->opened, "the others are not waited for any longer");
    fixture_clear(self);
    for (uint32_t i = 0; i < 4; i++) {
        schedule_reader(self, i, CADRE_TAG_NONE);
    }
    pass(self, CADRE_UNSERVED_MS + 5000);
    cr_expect_eq(given(self, 0), 2);
    cr_expect_eq(given(self, 1), 0);
    cr_expect_geq(fixture_count(self, &slow, CADRE_MESSAGE_DATASET), 9);
    cr_expect_eq(self->ended_count, 0);
    say_data(self, 1, 0, 150, GOOD);
    fixture_turn(self);
    cr_expect_eq(given(self, 1), 2);
    fixture_clear(self);
    pass(self, 3000);
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_DATASET), 0, "all have answered");
    fixture_destroy(&self);
}

Test(worker_admission, data_that_one_worker_cannot_open_is_no_failure)
{
    fixture_t *self = new_cluster(2);
    cadre_dataset_t *dataset = add_dataset(self);
    say_data(self, 0, CADRE_ENOTFOUND, 0, 0);
    pass(self, CADRE_UNSERVED_MS + 1000);
    cr_expect_not(dataset->opened, "the other one still reads");
    say_data(self, 1, 0, 150, GOOD);
    cr_expect(dataset->opened);
    cr_expect_eq(dataset->status, 0);
    schedule_reader(self, 1, CADRE_TAG_NONE);
    fixture_turn(self);
    cr_expect_eq(given(self, 1), 1);
    cr_expect_eq(count_logged(self, "worker=0 process=4711 to=\"dataset train\" why=\"it cannot "
                                    "open the data: no file a\""),
                 1);
    fixture_destroy(&self);
}

Test(worker_admission, data_that_nobody_can_open_fails_when_its_time_is_over)
{
    fixture_t *self = new_cluster(1);
    cadre_task_t late = fixture_worker(1);
    cadre_dataset_t *dataset = add_dataset(self);
    say_data(self, 0, CADRE_ENOTFOUND, 0, 0);
    pass(self, CADRE_UNSERVED_MS - 100);
    cr_expect_not(dataset->opened);
    pass(self, 200);
    cr_expect(dataset->opened);
    cr_expect_eq(dataset->status, CADRE_ENOTFOUND);
    cr_expect_str_eq(dataset->text, "no file a");
    fixture_hello(self, &late);
    fixture_turn(self);
    cr_expect_eq(fixture_count(self, &late, CADRE_MESSAGE_DATASET), 0);
    fixture_destroy(&self);
}

Test(worker_admission, closures_that_read_fail_when_only_workers_with_other_rows_are_left)
{
    fixture_t *self = new_cluster(3);
    cadre_task_t good[] = {fixture_worker(0), fixture_worker(1)};
    add_dataset(self);
    say_data(self, 0, 0, 150, GOOD);
    say_data(self, 1, 0, 150, GOOD);
    say_data(self, 2, 0, 149, OTHER);
    fixture_gone(self, &good[0]);
    fixture_gone(self, &good[1]);
    schedule_reader(self, 1, CADRE_TAG_NONE);
    pass(self, CADRE_UNSERVED_MS + 500);
    cr_assert_eq(self->ended_count, 1);
    cr_expect_eq(self->ended[0].status, CADRE_EDATA);
    cr_expect_not_null(strstr(self->ended[0].text,
                              "the only worker cannot run it: worker 2: dataset train: its data "
                              "differ: it has 149 rows"));
    fixture_destroy(&self);
}

/* --- what runs again --- */

Test(worker_admission, a_closure_that_is_to_run_again_and_that_nobody_can_run_is_given_up)
{
    fixture_t *self = new_cluster(2);
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    say_lacks(self, 1, 1, 1);
    fixture_schedule(self, 1);
    fixture_turn(self);
    cadre_message_t done = fixture_message(&workers[0], CADRE_MESSAGE_CLOSURE_DONE);
    done.closure_done = (cadre_closure_done_message_t){.id = 1, .attempt = 1, .updates = 1};
    fixture_say(self, &workers[0], &done);
    fixture_gone(self, &workers[0]);
    fixture_gone(self, &ps);
    fixture_clear(self);
    cadre_task_t again = {CADRE_ROLE_PS, 0, 2100};
    fixture_hello(self, &again);
    fixture_turn(self);
    fixture_reply(self, &again, fixture_sent(self, &again, CADRE_MESSAGE_RESTORE, 0));
    pass(self, 1000);
    cr_assert(self->core.replay.active);
    pass(self, CADRE_UNSERVED_MS);
    cr_expect_not(self->core.replay.active);
    cr_expect(fixture_logged(self, "replay_failed"));
    cr_expect_eq(self->core.queue.own.error, CADRE_ENOTFOUND);
    fixture_destroy(&self);
}
