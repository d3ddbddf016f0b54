#include "coordinator/core/shards/shard_requests.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

TestSuite(shard_requests, .timeout = 240);

enum { RESEND_MS = 1000 };

static const cadre_task_t ps_task = {CADRE_ROLE_PS, 0, 20};

typedef struct {
    size_t count;
    uint64_t details[256];
} answers_t;

static void
on_answer(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    answers_t *answers = context;
    cr_assert_not_null(reply);
    cr_assert_eq(status, 0);
    answers->details[answers->count++] = detail;
}

static void
ask(cadre_shard_requests_t *self, cadre_message_type_t type, uint64_t detail, void *context)
{
    cadre_message_t message = {.type = type, .incarnation = 1, .epoch = 1};
    cadre_shard_requests_ask(self, 0, &message, on_answer, context, detail);
}

/* What goes out at `now_ms`: the request ids, in order. */
static size_t
pump(cadre_shard_requests_t *self, const cadre_task_t *task, uint64_t now_ms, uint64_t ids[256])
{
    cadre_outbox_t outbox = {.entries = NULL};
    cadre_outbox_entry_t entry;
    size_t count = 0;
    const cadre_shard_target_t target = {.task = task, .generation = 1};
    cadre_shard_requests_pump(self, 0, &target, now_ms, RESEND_MS, &outbox);
    while (cadre_outbox_pop(&outbox, &entry)) {
        cadre_message_t message;
        cr_assert(cadre_task_equal(&entry.destination, task));
        cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                          cadre_chunk_size_bytes(entry.header), entry.chunks,
                                          entry.chunk_count, &message),
                     0);
        entry.chunk_count = 0;
        ids[count++] = message.request;
        cadre_message_fini(&message);
        cadre_outbox_entry_fini(&entry);
    }
    cadre_outbox_fini(&outbox);
    return count;
}

static bool
answer(cadre_shard_requests_t *self, uint64_t id)
{
    cadre_message_t reply = {.type = CADRE_MESSAGE_REPLY, .request = id};
    return cadre_shard_requests_answer(self, 0, &reply);
}

Test(shard_requests, go_out_in_order_at_most_a_window_of_them_at_a_time)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    uint64_t ids[256];
    cadre_shard_requests_init(&self, 1, 0);
    for (uint64_t i = 0; i < CADRE_SHARD_WINDOW + 2; i++) {
        ask(&self, CADRE_MESSAGE_COUNT, i, &answers);
    }
    cr_assert_eq(self.count, CADRE_SHARD_WINDOW + 2);
    cr_assert_eq(pump(&self, &ps_task, 10, ids), CADRE_SHARD_WINDOW);
    for (uint64_t i = 0; i < CADRE_SHARD_WINDOW; i++) {
        cr_assert_eq(ids[i], i + 1);
    }
    cr_assert_eq(pump(&self, &ps_task, 11, ids), 0);
    cr_assert(answer(&self, 7));
    cr_assert_eq(pump(&self, &ps_task, 12, ids), 1);
    cr_assert_eq(ids[0], CADRE_SHARD_WINDOW + 1);
    cr_assert_eq(answers.count, 1);
    cr_assert_eq(answers.details[0], 6);
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, wait_behind_a_restore_behind_creates_and_behind_each_assign)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    uint64_t ids[256];
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_COUNT, 1, &answers);
    ask(&self, CADRE_MESSAGE_RESTORE, 2, &answers);
    ask(&self, CADRE_MESSAGE_CREATE, 3, &answers);
    ask(&self, CADRE_MESSAGE_ASSIGN, 4, &answers);
    ask(&self, CADRE_MESSAGE_ASSIGN, 5, &answers);
    ask(&self, CADRE_MESSAGE_COUNT, 6, &answers);
    cr_assert_eq(pump(&self, &ps_task, 10, ids), 2);
    cr_assert_eq(ids[1], 2);
    cr_assert_eq(pump(&self, &ps_task, 11, ids), 0);
    cr_assert(answer(&self, 2));
    cr_assert_eq(pump(&self, &ps_task, 12, ids), 1);
    cr_assert_eq(ids[0], 3);
    cr_assert_eq(pump(&self, &ps_task, 12, ids), 0);
    cr_assert(answer(&self, 3));
    cr_assert_eq(pump(&self, &ps_task, 13, ids), 1);
    cr_assert_eq(ids[0], 4);
    cr_assert_eq(pump(&self, &ps_task, 13, ids), 0);
    cr_assert(answer(&self, 4));
    cr_assert_eq(pump(&self, &ps_task, 14, ids), 1);
    cr_assert_eq(ids[0], 5);
    cr_assert(answer(&self, 5));
    cr_assert_eq(pump(&self, &ps_task, 15, ids), 1);
    cr_assert_eq(ids[0], 6);
    cadre_shard_requests_fini(&self);
}

/* A ps may have joined with its index left open: control goes to the name it has, and data over the
 * connection that was made to the shard. */
Test(shard_requests, of_values_name_their_shard_and_others_the_task)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    cadre_outbox_t outbox = {.entries = NULL};
    cadre_outbox_entry_t entry;
    static const cadre_task_t open_task = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 20};
    const cadre_shard_target_t target = {.task = &open_task, .generation = 1};
    cadre_shard_requests_init(&self, 2, 0);
    cadre_message_t message = {.type = CADRE_MESSAGE_COUNT, .incarnation = 1, .epoch = 1};
    cadre_shard_requests_ask(&self, 1, &message, on_answer, &answers, 1);
    message = (cadre_message_t){.type = CADRE_MESSAGE_PULL, .incarnation = 1, .epoch = 1};
    cadre_shard_requests_ask(&self, 1, &message, on_answer, &answers, 2);
    cadre_shard_requests_pump(&self, 1, &target, 0, RESEND_MS, &outbox);
    cr_assert(cadre_outbox_pop(&outbox, &entry));
    cr_assert_eq(entry.destination.index, CADRE_INDEX_ANY);
    cadre_outbox_entry_fini(&entry);
    cr_assert(cadre_outbox_pop(&outbox, &entry));
    cr_assert_eq(entry.destination.index, 1);
    cr_assert_eq(entry.destination.incarnation, 20);
    cadre_outbox_entry_fini(&entry);
    cadre_outbox_fini(&outbox);
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, are_not_answered_by_a_shard_that_was_restored_meanwhile)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    uint64_t ids[256];
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_ASSIGN, 1, &answers);
    cr_assert_eq(pump(&self, &ps_task, 10, ids), 1);
    cadre_message_t fenced = {.type = CADRE_MESSAGE_REPLY, .request = 1};
    fenced.reply = (cadre_reply_message_t){.status = (uint64_t)-CADRE_EFENCED, .text = ""};
    cr_assert(cadre_shard_requests_answer(&self, 0, &fenced));
    cr_assert_eq(answers.count, 0);
    cr_assert_eq(pump(&self, &ps_task, 10 + RESEND_MS, ids), 1);
    cr_assert(answer(&self, 1));
    cr_assert_eq(answers.count, 1);
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, wait_while_the_ps_is_away_and_go_to_the_one_that_comes)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    uint64_t ids[256];
    cadre_task_t next = {CADRE_ROLE_PS, 0, 21};
    cadre_shard_requests_init(&self, 1, 0);
    for (uint64_t i = 0; i < CADRE_SHARD_WINDOW + 1; i++) {
        ask(&self, CADRE_MESSAGE_COUNT, i, &answers);
    }
    cr_assert_eq(pump(&self, &ps_task, 10, ids), CADRE_SHARD_WINDOW);
    cr_assert_eq(pump(&self, NULL, 11, ids), 0);
    cr_assert_eq(pump(&self, &next, 12, ids), CADRE_SHARD_WINDOW, "at once, the window is free");
    cr_assert_eq(ids[0], 1);
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, a_late_or_doubled_answer_changes_nothing)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    uint64_t ids[256];
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_COUNT, 1, &answers);
    pump(&self, &ps_task, 10, ids);
    cr_assert_not(answer(&self, 2));
    cr_assert_not(answer(&self, 0));
    cr_assert(answer(&self, 1));
    cr_assert_not(answer(&self, 1));
    ask(&self, CADRE_MESSAGE_COUNT, 2, &answers);
    cr_assert_not(answer(&self, 1), "ids are not used again");
    cr_assert_eq(answers.count, 1);
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, are_answered_by_their_own_shard_only)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    cadre_message_t message = {.type = CADRE_MESSAGE_COUNT};
    cadre_message_t reply = {.type = CADRE_MESSAGE_REPLY, .request = 1};
    cadre_shard_requests_init(&self, 2, 0);
    cadre_shard_requests_ask(&self, 1, &message, on_answer, &answers, 0);
    cr_assert_not(cadre_shard_requests_answer(&self, 0, &reply));
    cr_assert(cadre_shard_requests_answer(&self, 1, &reply));
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, of_a_context_that_is_forgotten_are_gone_and_make_room)
{
    cadre_shard_requests_t self;
    answers_t kept = {0};
    answers_t forgotten = {0};
    uint64_t ids[256];
    cadre_shard_requests_init(&self, 1, 0);
    for (uint64_t i = 0; i < CADRE_SHARD_WINDOW + 2; i++) {
        ask(&self, CADRE_MESSAGE_COUNT, i, i % 2 == 0 ? &forgotten : &kept);
    }
    pump(&self, &ps_task, 10, ids);
    cadre_shard_requests_forget(&self, &forgotten);
    cr_assert_eq(self.count, CADRE_SHARD_WINDOW / 2 + 1);
    cr_assert_eq(pump(&self, &ps_task, 11, ids), 1, "the one that had not gone out");
    cr_assert_eq(ids[0], CADRE_SHARD_WINDOW + 2);
    cr_assert_not(answer(&self, 1));
    cr_assert(answer(&self, 2));
    cr_assert_eq(forgotten.count, 0);
    cr_assert_eq(kept.count, 1);
    ask(&self, CADRE_MESSAGE_COUNT, 99, &kept);
    cr_assert_eq(pump(&self, &ps_task, 12, ids), 1, "the end of the lane is where it was");
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, of_a_context_that_is_forgotten_assignments_go_out_and_are_told_to_nobody)
{
    cadre_shard_requests_t self;
    answers_t forgotten = {0};
    uint64_t ids[256];
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_ASSIGN, 1, &forgotten);
    ask(&self, CADRE_MESSAGE_COUNT, 2, &forgotten);
    cadre_shard_requests_forget(&self, &forgotten);
    cr_assert_eq(self.count, 1);
    cr_assert_eq(pump(&self, &ps_task, 10, ids), 1);
    cr_assert_eq(ids[0], 1);
    cr_assert(answer(&self, 1));
    cr_assert_eq(forgotten.count, 0);
    cr_assert_eq(self.count, 0);
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, asked_after_the_last_was_answered_stand_behind_those_before_it)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    uint64_t ids[256];
    cadre_shard_requests_init(&self, 1, 0);
    for (uint64_t i = 1; i <= 3; i++) {
        ask(&self, CADRE_MESSAGE_COUNT, i, &answers);
    }
    pump(&self, &ps_task, 10, ids);
    cr_assert(answer(&self, 3));
    ask(&self, CADRE_MESSAGE_COUNT, 4, &answers);
    cr_assert_eq(pump(&self, NULL, 11, ids), 0);
    cr_assert_eq(pump(&self, &ps_task, 12, ids), 3);
    cr_assert_eq(ids[0], 1);
    cr_assert_eq(ids[1], 2);
    cr_assert_eq(ids[2], 4);
    cadre_shard_requests_fini(&self);
}

typedef struct {
    cadre_shard_requests_t *requests;
    answers_t later;
} chain_t;

static void
on_answer_go_on(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    (void)detail, (void)reply, (void)status;
    chain_t *chain = context;
    cadre_shard_requests_forget(chain->requests, chain);
    ask(chain->requests, CADRE_MESSAGE_COUNT, 3, &chain->later);
}

Test(shard_requests, whoever_is_answered_may_forget_and_ask_again)
{
    cadre_shard_requests_t self;
    chain_t chain = {.requests = &self};
    uint64_t ids[256];
    cadre_shard_requests_init(&self, 1, 0);
    for (int i = 0; i < 3; i++) {
        cadre_message_t message = {.type = CADRE_MESSAGE_COUNT};
        cadre_shard_requests_ask(&self, 0, &message, on_answer_go_on, &chain, 0);
    }
    pump(&self, &ps_task, 10, ids);
    cr_assert(answer(&self, 2));
    cr_assert_eq(self.count, 1);
    cr_assert_eq(pump(&self, &ps_task, 11, ids), 1);
    cr_assert_eq(ids[0], 4);
    cr_assert(answer(&self, 4));
    cr_assert_eq(chain.later.count, 1);
    cadre_shard_requests_fini(&self);
}

static char
letter_of(const cadre_outbox_entry_t *entry)
{
    if (entry->type == CADRE_MESSAGE_PROBE) {
        return entry->plane == CADRE_PLANE_DATA ? '?' : '!';
    }
    if (entry->type == CADRE_MESSAGE_PULL) {
        return 'p';
    }
    return entry->type == CADRE_MESSAGE_ASSIGN ? 'a' : 'x';
}

/* The types of what goes out now, one letter each: p PULL, a ASSIGN, x others; ? PROBE on the data
 * plane, ! on that of control. Returns the number of the last PROBE. */
static uint64_t
goes_out(cadre_shard_requests_t *self, uint64_t now_ms, const char *types)
{
    cadre_outbox_t outbox = {.entries = NULL};
    cadre_outbox_entry_t entry;
    const cadre_shard_target_t target = {.task = &ps_task, .generation = 1};
    uint64_t number = 0;
    char out[16] = "";
    size_t length = 0;
    cadre_shard_requests_pump(self, 0, &target, now_ms, RESEND_MS, &outbox);
    while (cadre_outbox_pop(&outbox, &entry)) {
        bool probes = entry.type == CADRE_MESSAGE_PROBE;
        out[length++] = letter_of(&entry);
        number = probes ? self->lanes[0].watches[entry.plane].probe : number;
        cadre_outbox_entry_fini(&entry);
    }
    cadre_outbox_fini(&outbox);
    cr_expect_str_eq(out, types, "at %d ms", (int)now_ms);
    return number;
}

static void
tell(cadre_shard_requests_t *self, uint64_t number, uint64_t id, cadre_probed_t state)
{
    uint64_t states[] = {id, state};
    const cadre_message_t message = {
        .type = CADRE_MESSAGE_PROBED, .request = number, .probed.states = {states, 2}};
    cadre_shard_requests_probed(self, 0, &message);
}

Test(shard_requests, for_values_go_out_again_only_when_a_probe_finds_them_lost)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_PULL, 1, &answers);
    goes_out(&self, 0, "p");
    uint64_t number = goes_out(&self, CADRE_PROBE_MS, "?");
    goes_out(&self, CADRE_PROBE_MS + RESEND_MS, "");
    tell(&self, number, 1, CADRE_PROBED_QUEUED);
    goes_out(&self, CADRE_PROBE_MS + RESEND_MS, "");
    number = goes_out(&self, 3 * CADRE_PROBE_MS, "?");
    tell(&self, number, 1, CADRE_PROBED_UNKNOWN);
    goes_out(&self, 3 * CADRE_PROBE_MS, "p");
    tell(&self, number, 1, CADRE_PROBED_UNKNOWN); /* asked before that */
    goes_out(&self, 4 * CADRE_PROBE_MS - 1, "");
    goes_out(&self, 5 * CADRE_PROBE_MS, "?");
    cadre_shard_requests_connected(&self, 0);
    goes_out(&self, 5 * CADRE_PROBE_MS, "p");
    cr_expect_eq(answers.count, 0);
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, that_assign_need_no_answer_but_a_probe_s)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_ASSIGN, 1, &answers);
    goes_out(&self, 0, "a");
    tell(&self, goes_out(&self, CADRE_PROBE_MS, "?"), 1, CADRE_PROBED_APPLIED);
    cr_expect_eq(answers.count, 1);
    cr_expect_eq(self.count, 0);
    cadre_shard_requests_fini(&self);
}

/* Others come and are answered all the time: the lost one is asked after all the same. */
Test(shard_requests, are_asked_after_although_younger_ones_are_answered)
{
    enum { TURN_MS = CADRE_PROBE_MS / 4 };
    cadre_shard_requests_t self;
    answers_t answers = {0};
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_PULL, 1, &answers);
    goes_out(&self, 0, "p");
    for (uint64_t id = 2; id < 5; id++) {
        ask(&self, CADRE_MESSAGE_PULL, id, &answers);
        goes_out(&self, (id - 1) * TURN_MS, "p");
        cr_expect(answer(&self, id));
    }
    goes_out(&self, CADRE_PROBE_MS, "?");
    cr_expect(answer(&self, 1));
    ask(&self, CADRE_MESSAGE_PULL, 6, &answers);
    goes_out(&self, CADRE_PROBE_MS + 1, "p");
    goes_out(&self, 2 * CADRE_PROBE_MS, "");
    goes_out(&self, 2 * CADRE_PROBE_MS + 1, "?");
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, for_values_are_what_silence_is_counted_from)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    size_t size_bytes = 0;
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_COUNT, 1, &answers);
    ask(&self, CADRE_MESSAGE_PULL, 2, &answers);
    cadre_shard_requests_expect(&self, 0, 1234);
    cr_expect_eq(cadre_shard_requests_silent_ms(&self, 0, &size_bytes), UINT64_MAX);
    goes_out(&self, 10, "xp");
    cr_expect_eq(cadre_shard_requests_silent_ms(&self, 0, &size_bytes), 10);
    cr_expect_eq(size_bytes, 1234);
    uint64_t number = goes_out(&self, 10 + CADRE_PROBE_MS, "!?");
    tell(&self, number, 2, CADRE_PROBED_QUEUED);
    goes_out(&self, 1500, "");
    cr_expect_eq(cadre_shard_requests_silent_ms(&self, 0, &size_bytes), 1500, "it was heard");
    cadre_shard_requests_fini(&self);
}

/* A shard that reads a checkpoint for a minute has one RESTORE to answer, and a few small probes.
 */
Test(shard_requests, of_control_go_out_once_however_long_their_answer_takes)
{
    enum { LONG_MS = 60000 };
    static const cadre_message_type_t types[] = {
        CADRE_MESSAGE_CREATE,    CADRE_MESSAGE_SETTLE, CADRE_MESSAGE_SNAPSHOT,
        CADRE_MESSAGE_CLOSE_CUT, CADRE_MESSAGE_COUNT,  CADRE_MESSAGE_CHECKPOINT_END,
        CADRE_MESSAGE_RESTORE,   CADRE_MESSAGE_DROP};
    for (size_t i = 0; i < CADRE_COUNT_OF(types); i++) {
        cadre_shard_requests_t self;
        answers_t answers = {0};
        uint64_t ids[256];
        size_t probes = 0;
        cadre_shard_requests_init(&self, 1, 0);
        ask(&self, types[i], 1, &answers);
        cr_expect_eq(pump(&self, &ps_task, 0, ids), 1);
        for (uint64_t now_ms = 10; now_ms < LONG_MS; now_ms += 10) {
            size_t count = pump(&self, &ps_task, now_ms, ids);
            probes += count;
            cr_expect(count == 0 || ids[0] > 1, "%s is said again at %d ms",
                      cadre_message_type_text(types[i]), (int)now_ms);
        }
        cr_expect_leq(probes, LONG_MS / CADRE_PROBE_MAX_MS + 3);
        cr_expect(answer(&self, 1));
        cr_expect_eq(answers.count, 1);
        cadre_shard_requests_fini(&self);
    }
}

Test(shard_requests, of_control_go_out_again_when_a_probe_finds_them_lost)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_RESTORE, 1, &answers);
    goes_out(&self, 0, "x");
    uint64_t number = goes_out(&self, CADRE_PROBE_MS, "!");
    tell(&self, number, 1, CADRE_PROBED_QUEUED);
    goes_out(&self, CADRE_PROBE_MS, "");
    tell(&self, number, 1, CADRE_PROBED_UNKNOWN);
    goes_out(&self, CADRE_PROBE_MS + 1, "x");
    tell(&self, number, 1, CADRE_PROBED_UNKNOWN); /* asked before that */
    goes_out(&self, CADRE_PROBE_MS + 2, "");
    goes_out(&self, 2 * CADRE_PROBE_MS + 1,
             "!"); /* it is as new, and so is the time between them */
    cr_expect_eq(answers.count, 0);
    cadre_shard_requests_fini(&self);
}

Test(shard_requests, of_control_are_asked_after_at_once_when_their_ps_says_hello)
{
    cadre_shard_requests_t self;
    answers_t answers = {0};
    cadre_shard_requests_init(&self, 1, 0);
    ask(&self, CADRE_MESSAGE_CREATE, 1, &answers);
    goes_out(&self, 10000, "x");
    cadre_shard_requests_doubt(&self, 0);
    tell(&self, goes_out(&self, 10010, "!"), 1, CADRE_PROBED_UNKNOWN);
    goes_out(&self, 10011, "x");
    cadre_shard_requests_connected(&self, 0); /* another data connection is no news of these */
    goes_out(&self, 10012, "");
    cadre_shard_requests_fini(&self);
}
