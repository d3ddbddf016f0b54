/* Through the core: a message that is not its sender's to send changes nothing and is counted */
#include "coordinator/core/members/rights.h"

#include "coordinator/core/checkpoint/checkpoint.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(rights, .timeout = 240);

static void
say_written(fixture_t *self, const cadre_task_t *from, uint64_t checkpoint)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_SNAPSHOT_WRITTEN);
    message.snapshot_written = (cadre_snapshot_written_message_t){
        .checkpoint = checkpoint, .text = "", .file = "planted", .size_bytes = 1, .hash = 2};
    fixture_say(self, from, &message);
}

/* A worker's second connection, which calls itself a ps: its index is no shard's. */
Test(rights, a_worker_that_speaks_as_a_ps_writes_no_shard_of_a_checkpoint)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    cadre_task_t worker = fixture_worker(2021);
    cadre_task_t as_ps = {CADRE_ROLE_PS, 0, worker.incarnation};
    fixture_hello(self, &worker);
    fixture_turn(self);
    say_written(self, &as_ps, 1); /* while none is taken */
    self->core.checkpoint.enabled = true;
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    cadre_store_answer_t opened = {
        .kind = CADRE_STORE_OPEN, .checkpoint = 4, .text = "/somewhere/.ckpt"};
    cadre_core_stored(&self->core, &opened, self->now_ms);
    fixture_turn(self);
    say_written(self, &as_ps, 4);
    say_written(self, &worker, 4);
    cr_assert_not(self->core.checkpoint.shards[0].written);
    cr_assert_eq(self->core.rights.dropped, 3);
    fixture_turn(self);
    cr_assert(fixture_logged(self, "messages_dropped"));
    fixture_destroy(&self);
}

Test(rights, nobody_speaks_for_a_member_under_another_name)
{
    fixture_t *self = fixture_new_cluster(2, 2);
    static const struct {
        uint32_t index;
        cadre_role_t role;
        cadre_message_type_t type;
    } cases[] = {
        {1, CADRE_ROLE_WORKER, CADRE_MESSAGE_GOODBYE},
        {CADRE_INDEX_ANY, CADRE_ROLE_WORKER, CADRE_MESSAGE_GOODBYE},
        {0, CADRE_ROLE_PS, CADRE_MESSAGE_GOODBYE},
        {0, CADRE_ROLE_PS, CADRE_MESSAGE_HELLO},
        {0, CADRE_ROLE_COORDINATOR, CADRE_MESSAGE_GOODBYE},
        {0, CADRE_ROLE_EVALUATOR, CADRE_MESSAGE_GOODBYE},
        {0, CADRE_ROLE_EVALUATOR, CADRE_MESSAGE_HELLO},
    };
    cadre_task_t member = fixture_worker(0);
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_task_t from = {cases[i].role, cases[i].index, member.incarnation};
        cadre_message_t message = fixture_message(&from, cases[i].type);
        if (message.type == CADRE_MESSAGE_HELLO) {
            message.hello = (cadre_hello_message_t){
                .role = from.role, .address = "tcp://127.0.0.1:6", .slots = 1};
        }
        fixture_say(self, &from, &message);
        cr_assert_eq(self->core.rights.dropped, i + 1, "case %zu", i);
    }
    cr_assert_eq(self->core.membership.worker_count, 2);
    cadre_message_t message = fixture_message(&member, CADRE_MESSAGE_GOODBYE);
    message.incarnation++; /* the header's and the sender's differ */
    fixture_say(self, &member, &message);
    cr_assert_eq(self->core.membership.worker_count, 2);
    fixture_turn(self);
    cr_assert_null(fixture_sent(self, NULL, CADRE_MESSAGE_UNKNOWN_PEER, 0));
    fixture_destroy(&self);
}

Test(rights, a_member_keeps_its_name_whatever_index_it_was_given)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t ps = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 2000};
    cadre_task_t by_link = {CADRE_ROLE_PS, 0, 2000};
    fixture_hello(self, &ps);
    fixture_heartbeat(self, &ps, 1, (cadre_u64s_t){NULL, 0});
    fixture_heartbeat(self, &by_link, 2, (cadre_u64s_t){NULL, 0});
    cr_assert_eq(self->core.rights.dropped, 0);
    cr_assert_eq(self->core.membership.ps[0]->heartbeat, 2);
    fixture_destroy(&self);
}

Test(rights, a_flood_of_dropped_messages_is_a_line_now_and_then)
{
    fixture_t *self = fixture_new(1);
    cadre_core_tick(&self->core, self->now_ms, false);
    const cadre_sender_t unknown = {.is_named = false};
    const cadre_sender_t worker = {{CADRE_ROLE_WORKER, 3, 0xab}, true, 0xcd};
    cadre_rights_note_dropped(&self->core.rights, 3, &unknown, "first");
    cadre_rights_note_dropped(&self->core.rights, 1000, &worker, "second");
    fixture_collect(self);
    cr_assert_eq(self->event_count, 1);
    self->now_ms += CADRE_DROPPED_LOG_MS;
    fixture_turn(self);
    cadre_rights_note_dropped(&self->core.rights, 1, &worker, "third");
    fixture_collect(self);
    cr_assert_eq(self->event_count, 2);
    cr_assert_str_eq(self->events[0].text, "count=3 from=unknown key_id=none last=\"first\" "
                                           "next=\"dropped; the job goes on\"");
    cr_assert_str_eq(self->events[1].text,
                     "count=1004 from=worker/3/00000000000000ab key_id=00000000000000cd "
                     "last=\"third\" next=\"dropped; the job goes on\"");
    fixture_destroy(&self);
}

Test(rights, data_whose_labels_have_no_type_are_not_believed)
{
    fixture_t *self = fixture_new_cluster(1, 1);
    cadre_task_t worker = fixture_worker(0);
    cadre_dataset_t *dataset = NULL;
    cr_assert_eq(cadre_catalogue_add_dataset(&self->core.catalogue, "d", "{}", &dataset), 0);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_DATASET_READY);
    message.dataset_ready =
        (cadre_dataset_ready_message_t){.id = 1, .text = "", .rows = 5, .label_dtype = 255};
    fixture_say(self, &worker, &message);
    cr_assert_eq(self->core.rights.dropped, 1);
    cr_assert_not(dataset->opened);
    fixture_destroy(&self);
}
