#include "ps/core/ps_core.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

TestSuite(ps_core, .timeout = 240);

enum { PS = 7, COORDINATOR = 8, SHARD = 2, HEARTBEAT_MS = 1000, RESEND_MS = 300 };

static cadre_ps_core_t *
new_core(void)
{
    return cadre_ps_core_new(
        &(cadre_ps_options_t){.session = {.task = {CADRE_ROLE_PS, CADRE_INDEX_ANY, PS},
                                          .build = "1",
                                          .host = "here",
                                          .process = 42},
                              .address = "tcp://127.0.0.1:1"});
}

/* Takes the next message out; its type, or 0 when there is none. The caller ends `message`. */
static int
said(cadre_ps_core_t *core, cadre_message_t *message)
{
    cadre_outbox_entry_t entry;
    if (!cadre_outbox_pop(cadre_ps_core_outbox(core), &entry)) {
        return 0;
    }
    cr_assert_eq(entry.plane, CADRE_PLANE_CONTROL);
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                      cadre_chunk_size_bytes(entry.header), NULL, 0, message),
                 0);
    cr_assert_eq(message->incarnation, PS);
    cadre_outbox_entry_fini(&entry);
    return (int)message->type;
}

/* Counts messages of `type` among all that are waiting, and drops them. */
static int
count_said(cadre_ps_core_t *core, cadre_message_type_t type)
{
    cadre_message_t message;
    int count = 0;
    for (int got; (got = said(core, &message));) {
        count += got == (int)type;
        cadre_message_fini(&message);
    }
    return count;
}

static int
count_events(cadre_ps_core_t *core, cadre_ps_event_kind_t kind)
{
    cadre_ps_event_t event;
    int count = 0;
    while (cadre_ps_core_event(core, &event)) {
        count += event.kind == kind;
        cadre_message_fini(&event.message);
    }
    return count;
}

static cadre_message_t
from_coordinator(cadre_message_type_t type, uint64_t incarnation)
{
    cadre_message_t message = {.type = type, .incarnation = incarnation, .epoch = 3};
    if (type == CADRE_MESSAGE_RESTORE) {
        message.restore = (cadre_restore_message_t){.path = "", .shard = SHARD};
    } else if (type == CADRE_MESSAGE_CREATE) {
        message.create.shard = SHARD;
    } else if (type == CADRE_MESSAGE_SETTLE) {
        message.settle.shard = SHARD;
    } else if (type == CADRE_MESSAGE_SNAPSHOT) {
        message.snapshot.shard = SHARD;
    } else if (type == CADRE_MESSAGE_CLOSE_CUT) {
        message.close_cut.shard = SHARD;
    } else if (type == CADRE_MESSAGE_DROP) {
        message.drop.shard = SHARD;
    } else if (type == CADRE_MESSAGE_RETIRE) {
        message.retire.shard = SHARD;
    }
    return message;
}

static void
welcome(cadre_ps_core_t *core, uint64_t incarnation, uint64_t now_ms)
{
    cadre_message_t message = from_coordinator(CADRE_MESSAGE_WELCOME, incarnation);
    message.welcome = (cadre_welcome_message_t){
        .index = SHARD, .heartbeat_ms = HEARTBEAT_MS, .resend_ms = RESEND_MS};
    cadre_ps_core_receive(core, &message, now_ms);
}

/* A member of a session at time 0, with nothing waiting. */
static cadre_ps_core_t *
new_member(void)
{
    cadre_ps_core_t *core = new_core();
    cadre_ps_core_connected(core, 0);
    welcome(core, COORDINATOR, 0);
    cr_assert_eq(count_said(core, CADRE_MESSAGE_HELLO), 1);
    cr_assert_eq(count_events(core, CADRE_PS_SESSION), 1);
    return core;
}

Test(ps_core, tells_where_it_serves_and_learns_which_shard)
{
    cadre_ps_core_t *core = new_core();
    cadre_message_t message;
    cadre_ps_core_connected(core, 50);
    cr_assert_eq(said(core, &message), CADRE_MESSAGE_HELLO);
    cr_assert_eq(message.hello.role, CADRE_ROLE_PS);
    cr_assert_eq(message.hello.index, CADRE_INDEX_ANY);
    cr_assert_str_eq(message.hello.address, "tcp://127.0.0.1:1");
    cr_assert_eq(message.hello.process, 42);
    cr_assert_eq(message.hello.session, 0);
    cadre_message_fini(&message);
    welcome(core, COORDINATOR, 1100);
    cadre_ps_event_t event;
    cr_assert(cadre_ps_core_event(core, &event));
    cr_assert_eq(event.kind, CADRE_PS_SESSION);
    cr_assert_eq(event.index, 2);
    cr_assert_eq(event.epoch, 3);
    cr_assert_eq(said(core, &message), CADRE_MESSAGE_HEARTBEAT);
    cr_assert_eq(message.epoch, 3);
    cadre_message_fini(&message);
    cr_assert_eq(cadre_ps_core_tick(core, 1200), 1100 + HEARTBEAT_MS);
    cadre_ps_core_destroy(&core);
}

Test(ps_core, heartbeats_probe_the_shard_and_tell_what_it_is_and_that_it_moves)
{
    cadre_ps_core_t *core = new_member();
    const uint64_t counters[CADRE_PS_COUNTER_COUNT] = {0};
    cadre_message_t message;
    count_said(core, CADRE_MESSAGE_HEARTBEAT);
    for (uint64_t i = 1; i <= 3; i++) {
        cadre_ps_core_tick(core, i * HEARTBEAT_MS);
        cr_assert_eq(said(core, &message), CADRE_MESSAGE_HEARTBEAT);
        cr_assert_eq(message.heartbeat.shard, SHARD);
        cr_assert_eq(message.heartbeat.generation, i == 1 ? 0 : 9);
        cr_assert_eq(message.heartbeat.progress, i - 1);
        cadre_message_fini(&message);
        cr_assert_eq(count_events(core, CADRE_PS_PROBE), 1);
        cadre_ps_core_counted(core, counters, 9, false); /* what it waits for stands still */
        cadre_ps_core_counted(core, counters, 9, true);
    }
    cadre_ps_core_destroy(&core);
}

Test(ps_core, tells_the_shards_counters_in_heartbeats)
{
    cadre_ps_core_t *core = new_member();
    uint64_t counters[CADRE_PS_COUNTER_COUNT] = {11, 12};
    cadre_ps_core_counted(core, counters, 6, true);
    const cadre_table_figures_t figures = {.rows = 5};
    cadre_tables_told_t tables = {.count = 0};
    cadre_tables_told_add(&tables, 3, &figures);
    cadre_ps_core_told(core, &tables);
    cadre_ps_core_tick(core, HEARTBEAT_MS);
    cadre_message_t message;
    cr_assert_eq(said(core, &message), CADRE_MESSAGE_HEARTBEAT);
    cr_assert_eq(message.heartbeat.sequence, 2);
    cr_assert_eq(message.heartbeat.counters.count, CADRE_PS_COUNTER_COUNT);
    cr_assert_eq(message.heartbeat.counters.items[1], 12);
    cr_assert_eq(message.heartbeat.tables.count, CADRE_TABLE_TOLD);
    cr_assert_eq(message.heartbeat.tables.items[0], 3);
    cr_assert_eq(message.heartbeat.tables.items[1 + CADRE_TABLE_COUNTER_rows], 5);
    cadre_message_fini(&message);
    message = from_coordinator(CADRE_MESSAGE_UNKNOWN_PEER, COORDINATOR);
    cadre_ps_core_receive(core, &message, HEARTBEAT_MS);
    cr_assert_eq(said(core, &message), CADRE_MESSAGE_HELLO);
    cr_assert_eq(message.hello.index, 2);
    cr_assert_eq(message.hello.session, COORDINATOR);
    cr_assert_eq(message.hello.generation, 6);
    cadre_message_fini(&message);
    cadre_ps_core_destroy(&core);
}

Test(ps_core, keeps_the_shard_when_the_same_session_welcomes_it_again)
{
    cadre_ps_core_t *core = new_member();
    cadre_ps_core_connected(core, 70000);
    cr_assert_eq(count_said(core, CADRE_MESSAGE_HELLO), 1);
    welcome(core, COORDINATOR, 70000);
    cr_assert_eq(count_events(core, CADRE_PS_SESSION), 0);
    cadre_ps_core_connected(core, 80000);
    welcome(core, COORDINATOR + 1, 80000);
    cr_assert_eq(count_events(core, CADRE_PS_SESSION), 1, "another coordinator");
    cadre_ps_core_destroy(&core);
}

Test(ps_core, passes_what_is_for_the_shard_on_in_order)
{
    static const cadre_message_type_t types[] = {
        CADRE_MESSAGE_RESTORE,   CADRE_MESSAGE_CREATE,         CADRE_MESSAGE_SETTLE,
        CADRE_MESSAGE_COUNT,     CADRE_MESSAGE_CHECKPOINT_END, CADRE_MESSAGE_SNAPSHOT,
        CADRE_MESSAGE_CLOSE_CUT, CADRE_MESSAGE_DROP,           CADRE_MESSAGE_RETIRE};
    cadre_ps_core_t *core = new_member();
    for (size_t i = 0; i < CADRE_COUNT_OF(types); i++) {
        cadre_message_t message = from_coordinator(types[i], COORDINATOR);
        message.request = 90 + i;
        cadre_ps_core_receive(core, &message, 10);
    }
    cadre_ps_event_t event;
    for (size_t i = 0; i < CADRE_COUNT_OF(types); i++) {
        cr_assert(cadre_ps_core_event(core, &event));
        cr_assert_eq(event.kind, CADRE_PS_MESSAGE);
        cr_assert_eq(event.message.type, types[i]);
        cr_assert_eq(event.message.request, 90 + i);
        cadre_message_fini(&event.message);
    }
    cr_assert_not(cadre_ps_core_event(core, &event));
    cr_assert_eq(cadre_ps_core_coordinator(core).incarnation, COORDINATOR);
    cadre_ps_core_destroy(&core);
}

Test(ps_core, counts_what_a_coordinator_does_not_say)
{
    cadre_ps_core_t *core = new_member();
    cadre_message_t message = from_coordinator(CADRE_MESSAGE_HEARTBEAT, COORDINATOR);
    cadre_ps_core_receive(core, &message, 10);
    message = from_coordinator(CADRE_MESSAGE_CANCEL, COORDINATOR);
    cadre_ps_core_receive(core, &message, 10);
    cadre_ps_core_malformed(core);
    cr_assert_eq(count_events(core, CADRE_PS_MALFORMED), 3);
    cadre_ps_core_destroy(&core);
}

/* --- leaving --- */

Test(ps_core, finds_another_shard_when_it_has_returned)
{
    cadre_ps_core_t *core = new_member();
    cadre_message_t message = from_coordinator(CADRE_MESSAGE_STOP, COORDINATOR);
    message.stop.reason = "done";
    cadre_ps_core_receive(core, &message, 10);
    cr_assert_eq(said(core, &message), CADRE_MESSAGE_GOODBYE);
    cadre_message_fini(&message);
    cr_assert_eq(count_events(core, CADRE_PS_LEFT), 1);
    cadre_ps_core_return(core, 100000);
    cadre_ps_core_tick(core, 100000 + CADRE_HELLO_RETRY_MS);
    cr_assert_eq(count_said(core, CADRE_MESSAGE_HELLO), 1);
    welcome(core, COORDINATOR, 101000);
    cr_assert_eq(count_events(core, CADRE_PS_SESSION), 1, "a new one, even there");
    cadre_ps_core_destroy(&core);
}

Test(ps_core, leaves_at_once_when_it_is_drained)
{
    cadre_ps_core_t *core = new_member();
    cadre_message_t message = from_coordinator(CADRE_MESSAGE_DRAIN, COORDINATOR);
    cadre_ps_core_receive(core, &message, 10);
    cr_assert_eq(count_said(core, CADRE_MESSAGE_GOODBYE), 1);
    cr_assert_eq(count_events(core, CADRE_PS_LEFT), 1);
    cadre_ps_core_destroy(&core);
}

Test(ps_core, hands_on_what_the_session_wants_of_its_shell)
{
    cadre_ps_core_t *core = new_core();
    cadre_ps_core_connected(core, 0);
    for (uint64_t now_ms = 0; now_ms <= CADRE_MUTE_MS; now_ms += 100) {
        cadre_ps_core_tick(core, now_ms);
    }
    cr_assert_eq(count_events(core, CADRE_PS_REDIAL), 1);
    cadre_message_t message = {.type = CADRE_MESSAGE_REFUSED};
    message.refused = (cadre_refused_message_t){.status = (uint64_t)-CADRE_EFULL, .text = "full"};
    cadre_ps_core_receive(core, &message, CADRE_MUTE_MS);
    cadre_ps_event_t event;
    cr_assert(cadre_ps_core_event(core, &event));
    cr_assert_eq(event.kind, CADRE_PS_REFUSED);
    cr_assert_eq(event.status, CADRE_EFULL);
    cr_assert_str_eq(event.text, "full");
    cadre_ps_core_destroy(&core);
}

Test(ps_core, asks_which_shard_it_serves_when_it_is_told_something_for_another)
{
    cadre_ps_core_t *core = new_member();
    cadre_message_t said_message;
    count_said(core, CADRE_MESSAGE_HELLO);
    static const cadre_message_type_t types[] = {CADRE_MESSAGE_RESTORE, CADRE_MESSAGE_CREATE,
                                                 CADRE_MESSAGE_SETTLE, CADRE_MESSAGE_SNAPSHOT};
    for (size_t i = 0; i < CADRE_COUNT_OF(types); i++) {
        cadre_message_t message = {.type = types[i], .incarnation = COORDINATOR, .epoch = 3};
        cadre_ps_core_receive(core, &message, 20); /* for shard 0 */
        cr_assert_eq((int)said(core, &said_message), CADRE_MESSAGE_HELLO, "type %d", (int)types[i]);
        cr_assert_eq(said_message.hello.index, SHARD);
        cadre_message_fini(&said_message);
        message = (cadre_message_t){.type = types[i], .incarnation = COORDINATOR, .epoch = 3};
        cadre_ps_core_receive(core, &message, 20);
        cr_assert_eq(count_said(core, CADRE_MESSAGE_HELLO), 0, "once");
        cr_assert_eq(count_events(core, CADRE_PS_MALFORMED), 1, "and nothing for the shard");
        welcome(core, COORDINATOR, 30);
        cr_assert_eq((int)said(core, &said_message), CADRE_MESSAGE_HEARTBEAT);
        cadre_message_fini(&said_message);
    }
    cadre_ps_core_destroy(&core);
}

/* --- checkpoints --- */

static void
order(cadre_ps_core_t *core, cadre_message_type_t type, uint64_t checkpoint, uint64_t now_ms)
{
    cadre_message_t message = from_coordinator(type, COORDINATOR);
    if (type == CADRE_MESSAGE_CLOSE_CUT) {
        message.close_cut.checkpoint = checkpoint;
    } else {
        message.checkpoint_end = (cadre_checkpoint_end_message_t){.checkpoint = checkpoint};
    }
    cadre_ps_core_receive(core, &message, now_ms);
}

static void
written(cadre_ps_core_t *core, uint64_t checkpoint, uint64_t now_ms)
{
    cadre_ps_written_t result = {
        .checkpoint = checkpoint, .file = "shard-2.mdb", .size_bytes = 99, .hash = 98, .step = 96};
    result.counters[0] = 97;
    cadre_ps_core_written(core, &result, now_ms);
}

Test(ps_core, says_what_was_written_until_the_checkpoint_has_ended)
{
    cadre_ps_core_t *core = new_member();
    cadre_message_t message;
    order(core, CADRE_MESSAGE_CLOSE_CUT, 5, 10);
    written(core, 5, 20);
    cr_assert_eq(cadre_ps_core_tick(core, 20), 20 + RESEND_MS);
    cr_assert_eq(said(core, &message), CADRE_MESSAGE_SNAPSHOT_WRITTEN);
    cr_assert_eq(message.snapshot_written.checkpoint, 5);
    cr_assert_str_eq(message.snapshot_written.file, "shard-2.mdb");
    cr_assert_eq(message.snapshot_written.size_bytes, 99);
    cr_assert_eq(message.snapshot_written.hash, 98);
    cr_assert_eq(message.snapshot_written.counters.items[0], 97);
    cr_assert_eq(message.snapshot_written.step, 96);
    cadre_message_fini(&message);
    cadre_ps_core_tick(core, 20 + RESEND_MS);
    cr_assert_eq(count_said(core, CADRE_MESSAGE_SNAPSHOT_WRITTEN), 1);
    order(core, CADRE_MESSAGE_CLOSE_CUT, 5, 330); /* said again: so is the answer */
    cr_assert_eq(count_said(core, CADRE_MESSAGE_SNAPSHOT_WRITTEN), 1);
    order(core, CADRE_MESSAGE_CHECKPOINT_END, 4, 340); /* of another one */
    cadre_ps_core_tick(core, 330 + RESEND_MS);
    cr_assert_eq(count_said(core, CADRE_MESSAGE_SNAPSHOT_WRITTEN), 1);
    cr_assert_eq(count_events(core, CADRE_PS_ABANDON), 0);
    order(core, CADRE_MESSAGE_CHECKPOINT_END, 5, 700);
    cr_assert_eq(cadre_ps_core_tick(core, 900), HEARTBEAT_MS);
    cr_assert_eq(count_said(core, CADRE_MESSAGE_SNAPSHOT_WRITTEN), 0);
    cr_assert_eq(count_events(core, CADRE_PS_ABANDON), 0, "there was nothing left to write");
    cadre_ps_core_destroy(&core);
}

Test(ps_core, stops_writing_what_nobody_wants)
{
    cadre_ps_core_t *core = new_member();
    order(core, CADRE_MESSAGE_CLOSE_CUT, 5, 10);
    order(core, CADRE_MESSAGE_CHECKPOINT_END, 5, 20);
    cr_assert_eq(count_events(core, CADRE_PS_ABANDON), 1);
    written(core, 5, 30); /* too late */
    order(core, CADRE_MESSAGE_CLOSE_CUT, 6, 40);
    order(core, CADRE_MESSAGE_CLOSE_CUT, 7, 50);
    cadre_ps_event_t event;
    cr_assert(cadre_ps_core_event(core, &event)); /* CLOSE_CUT 6 */
    cr_assert(cadre_ps_core_event(core, &event));
    cr_assert_eq(event.kind, CADRE_PS_ABANDON);
    cr_assert_eq(event.checkpoint, 6);
    written(core, 6, 60);
    cadre_ps_core_tick(core, 70);
    cr_assert_eq(count_said(core, CADRE_MESSAGE_SNAPSHOT_WRITTEN), 0);
    cadre_ps_core_destroy(&core);
}
