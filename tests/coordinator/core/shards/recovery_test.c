/* A recovery by itself: its links are made by hand, and there is no coordinator. */
#include "coordinator/core/shards/recovery.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

TestSuite(recovery, .timeout = 240);

enum { PS = 2, SENT_MAX = 64 };

typedef struct {
    cadre_core_options_t options;
    cadre_membership_t members;
    cadre_catalogue_t catalogue;
    cadre_drops_t drops;
    cadre_begun_t begun;
    cadre_replay_t replay;
    cadre_shard_requests_t requests;
    cadre_effects_t effects;
    cadre_shard_recovery_t recovery;
    cadre_message_t sent[SENT_MAX];
    cadre_task_t sent_to[SENT_MAX];
    size_t sent_count;
} fixture_t;

static const cadre_task_t worker = {CADRE_ROLE_WORKER, 0, 1000};

static void
clear(fixture_t *self)
{
    for (size_t i = 0; i < self->sent_count; i++) {
        cadre_message_fini(&self->sent[i]);
    }
    self->sent_count = 0;
}

static void
collect(fixture_t *self)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(&self->effects.outbox, &entry)) {
        cr_assert_lt(self->sent_count, SENT_MAX);
        self->sent_to[self->sent_count] = entry.destination;
        cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                          cadre_chunk_size_bytes(entry.header), entry.chunks,
                                          entry.chunk_count, &self->sent[self->sent_count++]),
                     0);
        entry.chunk_count = 0;
        cadre_outbox_entry_fini(&entry);
    }
}

/* The first message of `type` since the last clear; NULL when there is none. */
static const cadre_message_t *
sent(const fixture_t *self, cadre_message_type_t type)
{
    for (size_t i = 0; i < self->sent_count; i++) {
        if (self->sent[i].type == type) {
            return &self->sent[i];
        }
    }
    return NULL;
}

static uint64_t
turn_while(fixture_t *self, bool is_committing)
{
    const cadre_recovery_turn_t turn = {.is_committing = is_committing};
    uint64_t due_ms = cadre_recovery_tick(&self->recovery, &turn);
    cadre_recovery_pump(&self->recovery);
    collect(self);
    return due_ms;
}

static uint64_t
turn(fixture_t *self)
{
    return turn_while(self, false);
}

static cadre_recovery_outcome_t
outcome(fixture_t *self)
{
    cadre_recovery_outcome_t taken = {.status = 0};
    cadre_recovery_take_outcome(&self->recovery, &taken);
    return taken;
}

static cadre_member_t *
join(fixture_t *self, const cadre_task_t *task)
{
    const cadre_hello_message_t hello = {.role = task->role,
                                         .index = task->index,
                                         .build = "test",
                                         .host = "here",
                                         .address = "tcp://127.0.0.1:5555",
                                         .devices = "",
                                         .slots = 1};
    cadre_member_t *member = NULL;
    cr_assert_eq(cadre_membership_join(&self->members, task, &hello, self->effects.now_ms, &member),
                 0);
    if (task->role == CADRE_ROLE_PS) {
        cadre_recovery_on_ps(&self->recovery, member, &hello);
    }
    return member;
}

/* Says that all is well to whatever the shard was asked last, with `status` 0, or how it is not. */
static void
answer(fixture_t *self, uint32_t shard, cadre_message_type_t type, int status)
{
    const cadre_message_t *question = sent(self, type);
    cr_assert(question, "message %d was not sent", type);
    cadre_message_t reply = {.type = CADRE_MESSAGE_REPLY, .request = question->request};
    reply.reply = (cadre_reply_message_t){.status = (uint64_t)-status, .text = "a flipped bit"};
    cadre_recovery_on_answer(&self->recovery, shard, &reply);
}

static cadre_member_t *
begin(fixture_t *self, uint32_t shard, uint64_t incarnation)
{
    const cadre_task_t task = {CADRE_ROLE_PS, shard, incarnation};
    cadre_member_t *ps = join(self, &task);
    turn(self);
    answer(self, shard, CADRE_MESSAGE_RESTORE, 0);
    turn(self);
    clear(self);
    return ps;
}

static void
lose(fixture_t *self, cadre_member_t *ps)
{
    cadre_recovery_on_lost(&self->recovery, ps, "it was killed");
    cadre_membership_remove(&self->members, ps);
}

/* Two shards that are served, by incarnations 2000 and 2001, and a worker. */
static fixture_t *
setup(cadre_recovery_t how)
{
    fixture_t *self = cadre_calloc(1, sizeof(*self));
    self->options = (cadre_core_options_t){.ps_count = PS,
                                           .lease_ms = 10000,
                                           .resend_ms = 1000,
                                           .ps_timeout_ms = 60000,
                                           .recovery = how};
    cadre_effects_init(&self->effects, 77, 5, 100000);
    cadre_membership_init(&self->members, PS);
    cadre_catalogue_init(&self->catalogue, PS, false, 42);
    cadre_begun_init(&self->begun);
    cadre_replay_init(&self->replay, how != CADRE_RECOVERY_RELAXED, false);
    cadre_shard_requests_init(&self->requests, PS, 0);
    cadre_recovery_init(&self->recovery, &(cadre_recovery_links_t){.options = &self->options,
                                                                   .members = &self->members,
                                                                   .catalogue = &self->catalogue,
                                                                   .drops = &self->drops,
                                                                   .begun = &self->begun,
                                                                   .replay = &self->replay,
                                                                   .requests = &self->requests,
                                                                   .effects = &self->effects});
    join(self, &worker);
    begin(self, 0, 2000);
    begin(self, 1, 2001);
    outcome(self);
    return self;
}

static void
destroy(fixture_t **self_p)
{
    fixture_t *self = *self_p;
    clear(self);
    cadre_recovery_fini(&self->recovery);
    cadre_shard_requests_fini(&self->requests);
    cadre_replay_fini(&self->replay);
    cadre_begun_fini(&self->begun);
    cadre_catalogue_fini(&self->catalogue);
    cadre_membership_fini(&self->members);
    cadre_effects_fini(&self->effects);
    free(self);
}

Test(recovery, restores_a_shard_on_the_process_that_takes_its_place)
{
    fixture_t *self = setup(CADRE_RECOVERY_REPLAY);
    lose(self, self->members.ps[1]);
    collect(self);
    cr_assert_str_eq(sent(self, CADRE_MESSAGE_SHARD)->shard.address, "", "workers are told");
    cr_assert_not(cadre_recovery_is_calm(&self->recovery));
    clear(self);
    join(self, &(cadre_task_t){CADRE_ROLE_PS, 1, 3001});
    turn(self);
    cr_assert_eq(sent(self, CADRE_MESSAGE_RESTORE)->restore.generation, 2);
    cr_assert_not(outcome(self).is_ready);
    answer(self, 1, CADRE_MESSAGE_RESTORE, 0);
    turn(self);
    cadre_recovery_outcome_t result = outcome(self);
    cr_assert(result.is_ready);
    cr_assert_eq(result.restored, 1);
    cr_assert_eq(sent(self, CADRE_MESSAGE_SHARD)->shard.incarnation, 3001);
    cr_assert(cadre_recovery_is_calm(&self->recovery));
    cr_assert_not(cadre_recovery_take_outcome(&self->recovery, &result), "it is told once");
    destroy(&self);
}

Test(recovery, marks_what_is_under_way_as_stale_where_a_shard_was_restored)
{
    fixture_t *self = setup(CADRE_RECOVERY_REPLAY);
    cadre_closure_t *closure = cadre_closure_new(1);
    cadre_begun_add(&self->begun, closure);
    closure->attempt = 3;
    lose(self, self->members.ps[1]);
    begin(self, 1, 3001);
    cr_assert_eq(closure->stale, 3);
    cadre_closure_destroy(&closure);
    destroy(&self);
}

Test(recovery, repeats_the_assignments_since_the_cut)
{
    fixture_t *self = setup(CADRE_RECOVERY_REPLAY);
    cadre_tensor_t like = {.dtype = CADRE_F32, .rank = 1, .shape = {4}};
    cadre_variable_options_t options = {
        .size = sizeof(options), .partitioner = CADRE_PARTITION_FIXED, .count = 2};
    cadre_variable_t *variable = NULL;
    cr_assert_eq(cadre_catalogue_add_variable(&self->catalogue, "w", &like, &options, &variable),
                 0);
    variable->created = true;
    cadre_message_t assign = cadre_effects_message(&self->effects, CADRE_MESSAGE_ASSIGN);
    assign.assign = (cadre_assign_message_t){
        .sequence = cadre_recovery_next_assignment(&self->recovery, 1), .variable = variable->id};
    cadre_replay_note_assign(&self->replay, 1, self->begun.next_id, &assign);
    lose(self, self->members.ps[1]);
    join(self, &(cadre_task_t){CADRE_ROLE_PS, 1, 3001});
    clear(self);
    turn(self);
    answer(self, 1, CADRE_MESSAGE_RESTORE, 0);
    turn(self);
    answer(self, 1, CADRE_MESSAGE_CREATE, 0);
    turn(self);
    cr_assert_eq(sent(self, CADRE_MESSAGE_ASSIGN)->assign.sequence, 1);
    cr_assert_not(cadre_recovery_is_calm(&self->recovery));
    answer(self, 1, CADRE_MESSAGE_ASSIGN, 0);
    turn(self);
    cr_assert(cadre_recovery_is_calm(&self->recovery));
    destroy(&self);
}

Test(recovery, counts_what_is_lost_where_nothing_is_kept)
{
    fixture_t *self = setup(CADRE_RECOVERY_RELAXED);
    cadre_replay_note_unsaved(&self->replay);
    cadre_replay_note_unsaved(&self->replay);
    lose(self, self->members.ps[1]);
    begin(self, 1, 3001);
    cr_assert_eq(outcome(self).at_risk, 2);
    lose(self, self->members.ps[0]);
    begin(self, 0, 3000);
    cr_assert_eq(outcome(self).at_risk, 0, "each counts once");
    destroy(&self);
}

Test(recovery, begins_with_the_checkpoint_before_where_the_newest_cannot_be_read)
{
    fixture_t *self = setup(CADRE_RECOVERY_REPLAY);
    const cadre_restore_point_t point = {.path = cadre_strdup("/ckpt/a"), .cut = 1};
    cadre_recovery_on_commit(&self->recovery, &point);
    lose(self, self->members.ps[1]);
    join(self, &(cadre_task_t){CADRE_ROLE_PS, 1, 3001});
    clear(self);
    turn(self);
    cr_assert_str_eq(sent(self, CADRE_MESSAGE_RESTORE)->restore.path, "/ckpt/a");
    answer(self, 1, CADRE_MESSAGE_RESTORE, CADRE_ECORRUPT);
    clear(self);
    turn(self);
    cr_assert_str_eq(sent(self, CADRE_MESSAGE_RESTORE)->restore.path, "");
    cadre_recovery_outcome_t result = outcome(self);
    cr_assert(result.is_unreadable, "another checkpoint is due");
    cr_assert_eq(result.status, 0);
    answer(self, 1, CADRE_MESSAGE_RESTORE, CADRE_ECORRUPT);
    cr_assert_eq(outcome(self).status, CADRE_ECORRUPT, "there is no third");
    destroy(&self);
}

Test(recovery, begins_no_restore_before_it_is_known_to_which_cut)
{
    fixture_t *self = setup(CADRE_RECOVERY_REPLAY);
    lose(self, self->members.ps[1]);
    join(self, &(cadre_task_t){CADRE_ROLE_PS, 1, 3001});
    clear(self);
    turn_while(self, true);
    cr_assert_null(sent(self, CADRE_MESSAGE_RESTORE));
    turn(self);
    cr_assert(sent(self, CADRE_MESSAGE_RESTORE));
    destroy(&self);
}

Test(recovery, restores_every_shard_to_one_cut_where_it_rolls_back)
{
    fixture_t *self = setup(CADRE_RECOVERY_ROLLBACK);
    lose(self, self->members.ps[1]);
    join(self, &(cadre_task_t){CADRE_ROLE_PS, 1, 3001});
    turn(self);
    cr_assert_eq(self->recovery.places[0].state, CADRE_PLACE_RESTORING);
    cr_assert_eq(self->recovery.places[1].state, CADRE_PLACE_RESTORING);
    destroy(&self);
}

Test(recovery, ends_the_job_once_where_nobody_takes_the_place_in_time)
{
    fixture_t *self = setup(CADRE_RECOVERY_REPLAY);
    cadre_tensor_t like = {.dtype = CADRE_F32, .rank = 1, .shape = {4}};
    cadre_variable_options_t options = {
        .size = sizeof(options), .partitioner = CADRE_PARTITION_FIXED, .count = 2};
    cadre_variable_t *variable = NULL;
    cr_assert_eq(cadre_catalogue_add_variable(&self->catalogue, "w", &like, &options, &variable),
                 0);
    lose(self, self->members.ps[1]);
    uint64_t deadline_ms = self->effects.now_ms + self->options.ps_timeout_ms;
    cr_assert_eq(turn(self), deadline_ms);
    cadre_recovery_excuse(&self->recovery, 500);
    cadre_effects_set_time(&self->effects, deadline_ms);
    cr_assert_eq(turn(self), deadline_ms + 500, "the coordinator stood still for so long");
    cadre_effects_set_time(&self->effects, deadline_ms + 500);
    cr_assert_eq(turn(self), UINT64_MAX);
    cadre_recovery_outcome_t result = outcome(self);
    cr_assert_eq(result.status, CADRE_EUNAVAILABLE);
    cr_assert(strstr(result.text, "nobody has taken its place"));
    turn(self);
    cr_assert_eq(outcome(self).status, 0);
    destroy(&self);
}

Test(recovery, gives_back_a_ps_whose_shard_stands_still)
{
    fixture_t *self = setup(CADRE_RECOVERY_REPLAY);
    char why[CADRE_RECOVERY_WHY_SIZE];
    const cadre_heartbeat_message_t same = {.shard = 0, .generation = 1, .progress = 7};
    cadre_ps_condition_t condition = CADRE_PS_GOES_ON;
    for (int i = 0; i < 20 && condition == CADRE_PS_GOES_ON; i++) {
        condition = cadre_recovery_on_heartbeat(&self->recovery, self->members.ps[0], &same, why);
        cadre_effects_set_time(&self->effects, self->effects.now_ms + 1000);
    }
    cr_assert_eq(condition, CADRE_PS_STANDS_STILL);
    cr_assert_str_eq(why, "its shard has made no progress for 10000 ms");
    cr_assert(cadre_recovery_is_ready(&self->recovery, 0), "who loses it says so");
    destroy(&self);
}
