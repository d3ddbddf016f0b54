/*
 * What a shard wants of a checkpoint and does not have yet: RESTORE and CREATE are answered when
 * their loads come back. Until a checkpoint is open whatever else the coordinator asks waits behind
 * it; partitions are loaded beside everything else.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/status.h"
#include "ps/shard_state.h"

static cadre_checkpoint_load_t *
new_load(cadre_shard_t *self)
{
    cadre_checkpoint_load_t *load = cadre_checkpoint_load_new(++self->load_last);
    self->loads =
        cadre_realloc(self->loads, self->load_count + 1, sizeof(cadre_checkpoint_load_t *));
    self->loads[self->load_count++] = load;
    return load;
}

cadre_checkpoint_load_t *
cadre_shard_take_load(cadre_shard_t *self)
{
    if (self->load_taken == self->load_count) {
        self->load_taken = 0;
        self->load_count = 0;
        return NULL;
    }
    return self->loads[self->load_taken++];
}

uint64_t
cadre_shard_loads_from(const cadre_shard_t *self)
{
    return self->loads_from;
}

static cadre_shard_asker_t
asker_of(const cadre_shard_question_t *question)
{
    return (cadre_shard_asker_t){*question->from, question->message->request};
}

/* The answer to a question of a while ago, on the control plane. */
static void
reply_later(const cadre_shard_t *self, const cadre_shard_asker_t *asker, int status,
            cadre_outbox_t *outbox)
{
    cadre_message_t asked = {.request = asker->request};
    cadre_shard_question_t question = {CADRE_PLANE_CONTROL, &asker->from, &asked, outbox};
    cadre_shard_reply(self, &question, status);
}

/* --- a checkpoint is opened --- */

bool
cadre_shard_is_opening(const cadre_shard_t *self)
{
    return self->opening.load > 0;
}

void
cadre_shard_open_checkpoint(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    cadre_checkpoint_load_t *load = new_load(self);
    load->path = cadre_strdup(question->message->restore.path);
    load->index = self->index;
    self->opening.load = load->number;
    self->opening.asker = asker_of(question);
}

static bool
is_held(const cadre_shard_opening_t *self, uint64_t request)
{
    for (size_t i = 0; i < self->held_count; i++) {
        if (self->held[i].message.request == request) {
            return true;
        }
    }
    return false;
}

void
cadre_shard_hold(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    cadre_shard_opening_t *opening = &self->opening;
    cadre_message_t *message = question->message;
    if (message->type == CADRE_MESSAGE_RESTORE) {
        opening->asker = asker_of(question); /* said again */
        return;
    }
    if (!is_held(opening, message->request) && opening->held_count < CADRE_SHARD_HELD_MAX) {
        opening->held =
            cadre_realloc(opening->held, opening->held_count + 1, sizeof(*opening->held));
        opening->held[opening->held_count++] =
            (cadre_shard_held_t){.from = *question->from, .message = *message};
        *message = (cadre_message_t){.type = message->type};
    } /* else it will be said again */
}

/* What waited behind it is received now. */
static void
let_go(cadre_shard_t *self, cadre_outbox_t *outbox)
{
    cadre_shard_opening_t opening = self->opening;
    self->opening = (cadre_shard_opening_t){.load = 0};
    for (size_t i = 0; i < opening.held_count; i++) {
        cadre_shard_held_t *held = &opening.held[i];
        cadre_shard_receive(self, CADRE_PLANE_CONTROL, &held->from, &held->message, outbox);
    }
    free(opening.held);
}

static void
on_opened(cadre_shard_t *self, const cadre_checkpoint_load_t *load, cadre_outbox_t *outbox)
{
    cadre_shard_asker_t asker = self->opening.asker;
    int status = load->status < 0 ? cadre_fail(load->status, "%s: %s", load->path, load->text) : 0;
    if (status == 0) {
        self->loading = true;
#define TAKE_OVER(name) self->counters[CADRE_PS_COUNTER_##name] = load->state.name;
        CADRE_SHARD_COUNTER_LIST(TAKE_OVER)
#undef TAKE_OVER
        self->generation = self->restored;
    }
    reply_later(self, &asker, status, outbox);
    let_go(self, outbox);
}

/* --- a partition is loaded --- */

void
cadre_shard_load_part(cadre_shard_t *self, const cadre_shard_question_t *question,
                      cadre_shard_part_t **part_p)
{
    cadre_shard_loading_t *loading = cadre_calloc(1, sizeof(*loading));
    cadre_checkpoint_load_t *load = new_load(self);
    cadre_shard_part_t *part = *part_p;
    *part_p = NULL;
    const cadre_partition_spec_t *spec = cadre_partition_spec(part->partition);
    load->key = spec->variable << 16 | spec->partition;
    load->partition = part->partition;
    snprintf(load->name, sizeof(load->name), "%s", part->name);
    loading->load = load->number;
    loading->asker = asker_of(question);
    loading->spec = *spec;
    loading->part = part;
    part->partition = NULL; /* it is the load's */
    cadre_u64_map_put(&self->loading_parts, load->key, loading);
}

void
cadre_shard_ask_again(cadre_shard_loading_t *loading, const cadre_shard_question_t *question)
{
    loading->asker = asker_of(question);
}

bool
cadre_shard_awaits_load(const cadre_shard_t *self, uint64_t request)
{
    const cadre_shard_opening_t *opening = &self->opening;
    bool found =
        opening->load > 0 && (opening->asker.request == request || is_held(opening, request));
    const cadre_shard_loading_t *loading = NULL;
    for (size_t cursor = 0; (loading = cadre_u64_map_next(&self->loading_parts, &cursor));) {
        found = found || loading->asker.request == request;
    }
    return found;
}

static void
on_loaded(cadre_shard_t *self, cadre_checkpoint_load_t *load, cadre_outbox_t *outbox)
{
    cadre_shard_loading_t *loading = cadre_u64_map_get(&self->loading_parts, load->key);
    if (!loading || loading->load != load->number) {
        return; /* it was dropped, and perhaps created again */
    }
    cadre_u64_map_take(&self->loading_parts, load->key);
    cadre_shard_part_t *part = loading->part;
    if (load->status < 0) {
        reply_later(self, &loading->asker,
                    cadre_fail(load->status, "%s, partition %" PRIu64 ": %s", part->name,
                               loading->spec.partition, load->text),
                    outbox);
        self->size_bytes -= part->size_bytes;
        free(part);
    } else {
        part->partition = load->partition;
        load->partition = NULL;
        cadre_u64_map_put(&self->parts, load->key, part);
        reply_later(self, &loading->asker, 0, outbox);
    }
    free(loading);
}

void
cadre_shard_loaded(cadre_shard_t *self, cadre_checkpoint_load_t **load_p, cadre_outbox_t *outbox)
{
    cadre_checkpoint_load_t *load = *load_p;
    if (load->number == self->opening.load) {
        on_opened(self, load, outbox);
    } else if (!load->path) {
        on_loaded(self, load, outbox);
    }
    cadre_checkpoint_load_destroy(load_p);
}

/* --- given up --- */

void
cadre_shard_drop_loads(cadre_shard_t *self, uint64_t variable, cadre_outbox_t *outbox)
{
    const cadre_shard_loading_t *next = NULL;
    for (size_t cursor = 0; (next = cadre_u64_map_next(&self->loading_parts, &cursor));) {
        if (next->spec.variable != variable) {
            continue;
        }
        uint64_t key = next->spec.variable << 16 | next->spec.partition;
        cadre_shard_loading_t *loading = cadre_u64_map_take(&self->loading_parts, key);
        reply_later(self, &loading->asker,
                    cadre_fail(CADRE_EFENCED, "%s, partition %" PRIu64 ": was dropped",
                               loading->part->name, loading->spec.partition),
                    outbox);
        self->size_bytes -= loading->part->size_bytes;
        free(loading->part);
        free(loading);
        cursor = 0; /* the map has moved */
    }
}

void
cadre_shard_forget_loads(cadre_shard_t *self)
{
    cadre_shard_loading_t *loading = NULL;
    for (size_t cursor = 0; (loading = cadre_u64_map_next(&self->loading_parts, &cursor));) {
        free(loading->part);
        free(loading);
    }
    cadre_u64_map_fini(&self->loading_parts);
    for (size_t i = 0; i < self->opening.held_count; i++) {
        cadre_message_fini(&self->opening.held[i].message);
    }
    free(self->opening.held);
    self->opening = (cadre_shard_opening_t){.load = 0};
    for (size_t i = self->load_taken; i < self->load_count; i++) {
        cadre_checkpoint_load_destroy(&self->loads[i]);
    }
    cadre_free(&self->loads);
    self->load_count = 0;
    self->load_taken = 0;
    self->loads_from = self->load_last + 1;
    if (self->loading) {
        new_load(self)->path = cadre_strdup(""); /* the checkpoint is not needed any more */
        self->loading = false;
    }
}
