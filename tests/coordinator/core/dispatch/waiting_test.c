/* What calls and people are told while everything waits for one thing. */
#include "coordinator/core/dispatch/waiting.h"

#include "coordinator/core/checkpoint/checkpoint_words.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(waiting, .timeout = 240);

static fixture_t *
job(void)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_hello(self, &worker);
    fixture_add_variable(self, "w", 5, 1);
    self->core.checkpoint.enabled = true;
    fixture_turn(self);
    fixture_clear(self);
    self->core.options.lease_ms = UINT64_MAX / 2; /* nobody here says that it lives */
    return self;
}

static const char *
words(const fixture_t *self)
{
    static char text[CADRE_WAITING_TEXT_SIZE];
    return cadre_waiting_words(&self->core.waiting, "room in the queue", text);
}

/* The pairs of the last event of this name, NULL when there is none. */
static const char *
logged(const fixture_t *self, const char *name)
{
    const cadre_effect_t *event = NULL;
    const char *pairs = NULL;
    for (size_t i = 0; (event = fixture_event(self, CADRE_EFFECT_LOG, i)); i++) {
        pairs = strcmp(event->name, name) == 0 ? event->text : pairs;
    }
    return pairs;
}

/* A turn in which as much is kept for a replay as `times` its bound. */
static void
turn_with(fixture_t *self, size_t times)
{
    size_t kept = self->core.replay.size_bytes;
    self->core.replay.size_bytes += times * CADRE_REPLAY_SIZE_MAX;
    fixture_turn(self);
    self->core.replay.size_bytes = kept;
}

static void
fail_to_open(fixture_t *self, const char *why)
{
    cadre_store_answer_t answer = {.kind = CADRE_STORE_OPEN, .status = CADRE_EIO, .text = why};
    cr_assert_eq(self->core.checkpoint.state, CADRE_CHECKPOINT_OPENING);
    cadre_core_stored(&self->core, &answer, self->now_ms);
}

Test(waiting, is_for_what_the_call_waits_for_while_all_is_well)
{
    fixture_t *self = job();
    cr_assert_str_eq(words(self), "room in the queue");
    turn_with(self, 1);
    cr_assert_str_eq(words(self), "room in the queue", "a checkpoint has begun, nothing waits");
    fixture_destroy(&self);
}

Test(waiting, says_that_checkpoints_fail_when_the_memory_for_a_replay_is_full)
{
    fixture_t *self = job();
    turn_with(self, 1);
    fail_to_open(self, "/ckpt: No space left on device");
    turn_with(self, 1);
    cr_assert_not(fixture_logged(self, "dispatch_paused"));
    cr_assert_not(strstr(logged(self, "checkpoint_failed"), "nothing new"));
    turn_with(self, 2);
    const char *held = logged(self, "dispatch_paused");
    cr_assert(held);
    cr_expect(strstr(held, "checkpoints fail: /ckpt: No space left on device"), "%s", held);
    cr_expect(strstr(held, "make room"), "%s", held);
    cr_expect(strstr(words(self), "memory for a replay is full"), "%s", words(self));
    cr_expect(strstr(words(self), "checkpoints fail: /ckpt: No space left"), "%s", words(self));
    fixture_schedule(self, 1);
    fixture_clear(self);
    turn_with(self, 2);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);
    cr_assert_not(fixture_logged(self, "dispatch_paused"), "once");
    fixture_destroy(&self);
}

Test(waiting, says_with_every_checkpoint_that_fails_that_nothing_new_begins_and_when_it_does_again)
{
    fixture_t *self = job();
    turn_with(self, 2);
    cr_assert(logged(self, "dispatch_paused"));
    cr_expect_not(strstr(logged(self, "dispatch_paused"), "fail"), "none has failed yet");
    cr_expect_str_eq(words(self), "a checkpoint, because the memory for a replay is full");
    for (int i = 0; i < 3; i++) {
        fixture_clear(self);
        fail_to_open(self, "/ckpt: No space left on device");
        turn_with(self, 2);
        cr_assert(strstr(logged(self, "checkpoint_failed"), "nothing new begins until"));
        self->now_ms += CADRE_CHECKPOINT_RETRY_MS;
        turn_with(self, 2);
    }
    fixture_clear(self);
    fixture_turn(self);
    cr_assert(logged(self, "dispatch_resumed"));
    cr_expect_str_eq(words(self), "room in the queue");
    fixture_destroy(&self);
}

Test(waiting, names_a_shard_that_is_away_before_anything_else)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(0);
    turn_with(self, 2);
    fixture_gone(self, &ps);
    turn_with(self, 2);
    self->now_ms += 7000;
    turn_with(self, 2);
    cr_expect_str_eq(words(self), "ps 0 to come back (it is lost for 7 s)");
    fixture_destroy(&self);
}

/* Then it ends with the keeping, as soon as no shard is away. */
Test(waiting, is_for_no_checkpoint_where_there_are_none)
{
    fixture_t *self = job();
    self->core.checkpoint.enabled = false;
    turn_with(self, 2);
    cr_expect_not(fixture_logged(self, "dispatch_paused"));
    cr_expect(fixture_logged(self, "replay_disabled"));
    cr_expect_str_eq(words(self), "room in the queue");
    fixture_destroy(&self);
}

Test(waiting, of_a_checkpoint_names_the_shard_that_is_restored)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t next = {CADRE_ROLE_PS, 0, 3000};
    char text[CADRE_CHECKPOINT_WAITS_SIZE];
    self->core.options.lease_ms = 10000;
    fixture_gone(self, &ps);
    fixture_turn(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    cadre_store_answer_t answer = {.kind = CADRE_STORE_OPEN, .checkpoint = 9, .text = "/c/.tmp-9"};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    fixture_turn(self);
    cadre_checkpoint_waits(&self->core.checkpoint, text);
    cr_assert(strstr(text, "ps 0 to come back (it is lost for"), "%s", text);
    fixture_hello(self, &next);
    fixture_turn(self);
    cadre_checkpoint_waits(&self->core.checkpoint, text);
    cr_assert_str_eq(text, "ps 0 to be restored: it has 2 requests to answer");
    fixture_destroy(&self);
}

/* --- closures that have not ended --- */

/* A closure for worker `tag`, in `group`, with an argument from `source` and with `resource`; NULL
 * and 0 are none. */
typedef struct {
    uint32_t tag;
    cadre_closure_group_t *group;
    cadre_closure_t *source;
    uint64_t resource;
} call_t;

static cadre_closure_t *
put(fixture_t *self, const call_t *call)
{
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->tag = call->tag;
    closure->group = call->group ? cadre_closure_group_ref(call->group) : NULL;
    closure->results = cadre_results_new();
    if (call->source) {
        cadre_closure_add_argument(closure, "a", NULL, call->source->results);
    }
    if (call->resource) {
        closure->resources = cadre_calloc(1, sizeof(uint64_t));
        closure->resources[closure->resource_count++] = call->resource;
    }
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    fixture_turn(self);
    return closure;
}

static void
expect_closures(const fixture_t *self, const cadre_waited_t *waited, const char *expected)
{
    char text[CADRE_WAITING_CLOSURES_SIZE];
    cr_expect_str_eq(cadre_waiting_closures(&self->core.waiting, waited, self->now_ms, text),
                     expected);
}

static void
expect_closure(const fixture_t *self, const cadre_closure_t *closure, const char *expected)
{
    char text[CADRE_WAITING_CLOSURE_SIZE];
    cr_expect_str_eq(cadre_waiting_closure(&self->core.waiting, closure, self->now_ms, text),
                     expected);
}

static const call_t common = {.tag = CADRE_TAG_NONE};
static const cadre_waited_t of_join = {.group = NULL};

Test(waiting, names_a_closure_whose_worker_is_absent_where_its_group_or_a_drop_waits_for_it)
{
    fixture_t *self = job();
    cadre_closure_group_t *group = cadre_closure_group_new(true);
    const cadre_waited_t of_group = {.group = group};
    cadre_closure_t *closure = put(self, &(call_t){.tag = 5, .group = group});
    const char *words = "0 on 1 workers, 1 wait for one; closure (function work) waits for worker "
                        "5, which is absent";
    expect_closures(self, &of_group, words);
    expect_closures(self, &(cadre_waited_t){.drop = 1}, words);
    expect_closures(self, &of_join, "0 on 1 workers, 0 wait for one");
    expect_closure(self, closure, "closure (function work) waits for worker 5, which is absent");

    /* one that was put after the drop is not waited for */
    put(self, &(call_t){.tag = 5, .group = group})->drops = 1;
    expect_closures(self, &(cadre_waited_t){.drop = 1}, words);

    /* one that is on a worker comes behind it */
    put(self, &(call_t){.tag = CADRE_TAG_NONE, .group = group});
    expect_closures(self, &of_group,
                    "1 on 1 workers, 2 wait for one; closure (function work) waits for worker 5, "
                    "which is absent; closure 1 (function work) on worker 0 for 0 s, attempt 1");
    cadre_closure_group_forsake(group);
    cadre_closure_group_unref(&group);
    fixture_destroy(&self);
}

Test(waiting, names_the_resource_that_a_closure_waits_for_and_the_function_that_builds_it)
{
    fixture_t *self = job();
    cadre_resource_t *resource = NULL;
    cadre_closure_t *build = cadre_closure_new(fixture_function(self)->id);
    cr_assert_eq(cadre_catalogue_add_resource(&self->core.catalogue, "slow", &build, &resource), 0);
    const call_t call = {.tag = CADRE_TAG_NONE, .resource = resource->id};
    cadre_closure_t *closure = put(self, &call);
    const char *words = "closure (function work) waits for resource slow, which no worker has "
                        "built by function work";
    expect_closure(self, closure, words);
    cadre_resource_set_put(&self->core.membership.workers[0]->resources_told, resource->id);
    words = "closure (function work) waits for resource slow, which is being built by function "
            "work";
    expect_closure(self, closure, words);
    char text[CADRE_WAITING_CLOSURES_SIZE];
    snprintf(text, sizeof(text), "0 on 1 workers, 1 wait for one; %s", words);
    expect_closures(self, &of_join, text);
    fixture_destroy(&self);
}

Test(waiting, names_whose_result_a_closure_waits_for)
{
    fixture_t *self = job();
    cadre_closure_t *source = put(self, &common);
    cadre_closure_t *taker = put(self, &(call_t){.tag = CADRE_TAG_NONE, .source = source});
    cadre_closure_t *last = put(self, &(call_t){.tag = CADRE_TAG_NONE, .source = taker});
    expect_closure(self, taker,
                   "closure (function work) waits for a result of closure 1 (function work) on "
                   "worker 0 for 0 s, attempt 1");
    expect_closure(self, last, "closure (function work) waits for a result of another closure");
    expect_closures(self, &of_join,
                    "1 on 1 workers, 2 wait for one; closure (function work) waits for a result "
                    "of closure 1 (function work) on worker 0 for 0 s, attempt 1; closure 1 "
                    "(function work) on worker 0 for 0 s, attempt 1");
    fixture_destroy(&self);
}

Test(waiting, says_of_others_that_no_worker_is_free_for_them_unless_those_on_workers_say_it)
{
    fixture_t *self = job();
    cadre_closure_group_t *group = cadre_closure_group_new(true);
    put(self, &common);
    put(self, &common);
    cadre_closure_t *closure = put(self, &common);
    cadre_closure_t *tagged = put(self, &(call_t){.tag = 0, .group = group});
    expect_closure(self, closure, "closure (function work) waits for a free worker");
    expect_closure(self, tagged, "closure (function work) waits for worker 0 to be free");
    expect_closures(self, &of_join,
                    "2 on 1 workers, 1 wait for one; closure 1 (function work) on worker 0 for 0 "
                    "s, attempt 1; closure 2 (function work) on worker 0 for 0 s, attempt 1");
    expect_closures(self, &(cadre_waited_t){.group = group},
                    "0 on 1 workers, 1 wait for one; closure (function work) waits for worker 0 "
                    "to be free");
    cadre_closure_group_forsake(group);
    cadre_closure_group_unref(&group);
    fixture_destroy(&self);
}
