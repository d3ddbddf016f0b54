#include "ps/core/shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "ps/core/shard_state.h"

cadre_shard_t *
cadre_shard_new(const cadre_shard_options_t *options)
{
    cadre_shard_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
    self->window = cadre_applied_window_new(0);
    self->intake = cadre_intake_new(options->intake_bytes ? options->intake_bytes : UINT64_MAX,
                                    options->window_min);
    return self;
}

/* Everything goes but the session and the count of malformed messages, which is the process's. */
static void
begin_anew(cadre_shard_t *self, uint64_t base)
{
    cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        cadre_partition_close(&part->partition);
        cadre_partition_close(&part->image);
        free(part);
    }
    cadre_u64_map_fini(&self->parts);
    cadre_u64_map_fini(&self->variables);
    cadre_shard_forget_loads(self);
    cadre_shard_snapshot_destroy(&self->snapshot);
    cadre_intake_clear(self->intake);
    cadre_applied_window_reset(self->window, base);
    uint64_t malformed = self->counters[CADRE_PS_COUNTER_malformed];
    memset(self->counters, 0, sizeof(self->counters));
    self->counters[CADRE_PS_COUNTER_malformed] = malformed;
    self->generation = 0;
    self->size_bytes = 0;
    self->assigned = 0;
    self->refused = 0;
    self->dropped = 0;
    self->checkpoint = 0;
    self->confirmed = 0;
    self->closed = 0;
    self->cut = 0;
}

void
cadre_shard_destroy(cadre_shard_t **self_p)
{
    cadre_shard_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    begin_anew(self, 0);
    cadre_shard_forget_loads(self); /* the load that it left */
    cadre_applied_window_destroy(&self->window);
    cadre_intake_destroy(&self->intake);
    free(self->named);
    cadre_chunk_pool_destroy(&self->pool);
    cadre_update_fini(&self->update);
    free(self);
}

void
cadre_shard_begin_session(cadre_shard_t *self, uint32_t index, uint64_t epoch, uint64_t coordinator)
{
    begin_anew(self, 0);
    self->restored = 0;
    self->index = index;
    self->epoch = epoch;
    self->coordinator = coordinator;
}

void
cadre_shard_malformed(cadre_shard_t *self)
{
    self->counters[CADRE_PS_COUNTER_malformed]++;
}

const uint64_t *
cadre_shard_counters(const cadre_shard_t *self)
{
    return self->counters;
}

uint64_t
cadre_shard_generation(const cadre_shard_t *self)
{
    return self->generation;
}

size_t
cadre_shard_partition_count(const cadre_shard_t *self)
{
    return self->parts.count;
}

cadre_shard_figures_t
cadre_shard_figures(const cadre_shard_t *self)
{
    const cadre_admission_t *admission = self->options.admission;
    return (cadre_shard_figures_t){.partitions = self->parts.count,
                                   .size_bytes = self->size_bytes,
                                   .granted_bytes = cadre_intake_granted_bytes(self->intake),
                                   .collected_bytes = cadre_intake_collected_bytes(self->intake),
                                   .pulls_waiting =
                                       admission ? cadre_admission_count(admission) : 0};
}

const cadre_partition_t *
cadre_shard_partition(const cadre_shard_t *self, uint64_t variable, uint64_t partition)
{
    cadre_shard_part_t *part = NULL;
    return cadre_shard_find(self, variable, partition, &part) == 0 ? part->partition : NULL;
}

int
cadre_shard_find(const cadre_shard_t *self, uint64_t variable, uint64_t partition,
                 cadre_shard_part_t **out)
{
    if (variable <= UINT32_MAX && partition < CADRE_PARTITIONS_PER_VARIABLE_MAX) {
        *out = cadre_u64_map_get(&self->parts, variable << 16 | partition);
    } else {
        *out = NULL;
    }
    if (!*out) {
        return cadre_fail(CADRE_ENOTFOUND,
                          "this shard has no partition %" PRIu64 " of variable %" PRIu64, partition,
                          variable);
    }
    return 0;
}

int
cadre_shard_check_generation(const cadre_shard_t *self, uint64_t generation)
{
    if (self->generation == 0) {
        return cadre_fail(CADRE_EFENCED, "the shard has not been told where to begin");
    }
    if (generation != self->generation) {
        return cadre_fail(CADRE_EFENCED, "the shard has generation %" PRIu64 ", not %" PRIu64,
                          self->generation, generation);
    }
    return 0;
}

/* --- answers --- */

cadre_message_t
cadre_shard_answer(const cadre_shard_t *self, const cadre_shard_question_t *question,
                   cadre_message_type_t type)
{
    return (cadre_message_t){.type = type,
                             .request = question->message->request,
                             .incarnation = self->options.incarnation,
                             .epoch = self->epoch};
}

void
cadre_shard_send(const cadre_shard_question_t *question, cadre_message_t *answer)
{
    if (answer->request != 0) {
        cadre_outbox_send_on(question->outbox, question->plane, question->from, answer);
    }
    cadre_message_fini(answer);
}

void
cadre_shard_reply(const cadre_shard_t *self, const cadre_shard_question_t *question, int status)
{
    cadre_message_t answer = cadre_shard_answer(self, question, CADRE_MESSAGE_REPLY);
    answer.reply = (cadre_reply_message_t){.status = (uint64_t)-status,
                                           .text = status < 0 ? cadre_error_text() : "",
                                           .counters = {self->counters, CADRE_PS_COUNTER_COUNT}};
    cadre_shard_send(question, &answer);
}

/* --- control --- */

static int
settle(cadre_shard_t *self, const cadre_settle_message_t *settle)
{
    int status = cadre_shard_check_generation(self, settle->generation);
    if (status == 0) {
        cadre_applied_window_set_base(self->window, settle->base);
    }
    return status;
}

/* A generation that could not be loaded leaves the shard without one: it serves nobody until the
 * same RESTORE, said again, or one of a higher generation succeeds. */
static void
restore(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    const cadre_restore_message_t *restore = &question->message->restore;
    int status = 0;
    if (cadre_shard_await_checkpoint(self, question)) {
        return;
    }
    if (restore->generation == 0) {
        status = cadre_fail(CADRE_EINVALID, "generations begin at 1");
    } else if (restore->generation < self->restored) {
        status = cadre_fail(CADRE_EFENCED,
                            "a restore to generation %" PRIu64 " came after one to %" PRIu64,
                            restore->generation, self->restored);
    } else if (restore->generation != self->generation) { /* else it was said again */
        begin_anew(self, restore->cut);
        cadre_shard_end_cut(self, restore->ended);
        self->restored = restore->generation;
        if (restore->path[0]) {
            cadre_shard_open_checkpoint(self, question);
            return;
        }
        self->generation = restore->generation;
    }
    cadre_shard_reply(self, question, status);
}

static void
on_control(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    cadre_message_t *message = question->message;
    const uint64_t *named = cadre_message_shard(message);
    if (named && *named != self->index) {
        cadre_shard_malformed(self); /* it is said again, to whoever serves that one */
    } else if (message->type == CADRE_MESSAGE_CREATE) {
        cadre_shard_create(self, question);
    } else if (message->type == CADRE_MESSAGE_DROP) {
        cadre_shard_reply(self, question, cadre_shard_drop(self, &message->drop, question->outbox));
    } else if (message->type == CADRE_MESSAGE_RETIRE) {
        cadre_shard_reply(self, question, cadre_shard_retire(self, &message->retire));
    } else if (message->type == CADRE_MESSAGE_RESTORE) {
        restore(self, question);
    } else if (message->type == CADRE_MESSAGE_SETTLE) {
        cadre_shard_reply(self, question, settle(self, &message->settle));
    } else if (message->type == CADRE_MESSAGE_SNAPSHOT) {
        cadre_shard_snapshot(self, question);
    } else if (message->type == CADRE_MESSAGE_CLOSE_CUT) {
        cadre_shard_reply(self, question, cadre_shard_close_cut(self, &message->close_cut));
    } else if (message->type == CADRE_MESSAGE_CHECKPOINT_END) {
        cadre_shard_end_cut(self, message->checkpoint_end.checkpoint);
        cadre_shard_reply(self, question, 0);
    } else if (message->type == CADRE_MESSAGE_COUNT) {
        cadre_shard_reply(self, question, 0);
    } else if (message->type == CADRE_MESSAGE_PROBE) {
        cadre_shard_probe(self, question);
    } else {
        cadre_shard_malformed(self);
    }
}

static void
on_data(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    cadre_message_t *message = question->message;
    if (question->from->role == CADRE_ROLE_WORKER) {
        cadre_intake_heard(self->intake, question->from->incarnation, self->now_ms);
    }
    if (message->type == CADRE_MESSAGE_PULL) {
        cadre_shard_pull(self, question);
    } else if (message->type == CADRE_MESSAGE_PUSH) {
        cadre_shard_push(self, question);
    } else if (message->type == CADRE_MESSAGE_RESERVE) {
        cadre_shard_reserve(self, question);
    } else if (message->type == CADRE_MESSAGE_ASSIGN) {
        cadre_shard_assign(self, question);
    } else if (message->type == CADRE_MESSAGE_PROBE) {
        cadre_shard_probe(self, question);
    } else {
        cadre_shard_malformed(self);
    }
}

/* --- updates that may come --- */

static void
say_grants(cadre_shard_t *self, cadre_outbox_t *outbox)
{
    cadre_task_t to;
    cadre_message_t grant = {.type = CADRE_MESSAGE_GRANT,
                             .incarnation = self->options.incarnation,
                             .epoch = self->epoch};
    while (cadre_intake_grant(self->intake, self->now_ms, &to, &grant.request)) {
        grant.grant.window = cadre_intake_window(self->intake);
        cadre_outbox_send(outbox, &to, &grant);
    }
}

/* While something is reserved the actor comes each CADRE_SHARD_TICK_MS, so what it is late by was
 * this process's own stall, or one long turn: what peers said meanwhile lies unread. */
static void
excuse_stall(cadre_shard_t *self, uint64_t now_ms)
{
    uint64_t due_ms = self->now_ms + CADRE_SHARD_TICK_MS;
    if (cadre_intake_is_busy(self->intake) && now_ms >= due_ms + CADRE_OWN_STALL_MS) {
        cadre_intake_excuse(self->intake, now_ms - due_ms, now_ms);
    }
}

void
cadre_shard_tick(cadre_shard_t *self, uint64_t now_ms, cadre_outbox_t *outbox)
{
    excuse_stall(self, now_ms);
    self->now_ms = now_ms;
    say_grants(self, outbox);
}

bool
cadre_shard_is_receiving(const cadre_shard_t *self)
{
    return cadre_intake_is_busy(self->intake);
}

void
cadre_shard_unreachable(cadre_shard_t *self, const cadre_task_t *peer)
{
    cadre_intake_gone(self->intake, peer);
}

void
cadre_shard_receive(cadre_shard_t *self, cadre_plane_t plane, const cadre_task_t *from,
                    cadre_message_t *message, cadre_outbox_t *outbox)
{
    cadre_shard_question_t question = {plane, from, message, outbox};
    bool stranger = from->role == CADRE_ROLE_COORDINATOR && from->incarnation != self->coordinator;
    bool is_here = cadre_message_plane(message->type) == plane ||
                   message->type == CADRE_MESSAGE_PROBE; /* it asks after those of its plane */
    if (stranger || cadre_message_authorize(message->type, from->role) < 0 ||
        message->incarnation != from->incarnation || !is_here) {
        cadre_shard_malformed(self);
    } else if (plane == CADRE_PLANE_CONTROL) {
        on_control(self, &question);
    } else {
        on_data(self, &question);
        say_grants(self, outbox);
    }
    cadre_message_fini(message);
}
