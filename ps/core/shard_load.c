/*
 * What a shard wants of a checkpoint and does not have yet: RESTORE and CREATE are answered when
 * their loads come back, and everything else is as if they had not come yet.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "ps/core/shard_state.h"

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

void
cadre_shard_open_checkpoint(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    cadre_checkpoint_load_t *load = new_load(self);
    load->path = cadre_strdup(question->message->restore.path);
    load->index = self->index;
    self->opening.load = load->number;
    self->opening.asker = asker_of(question);
}

bool
cadre_shard_await_checkpoint(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    bool is_said_again =
        self->opening.load > 0 && question->message->restore.generation == self->restored;
    if (is_said_again) {
        self->opening.asker = asker_of(question);
    }
    return is_said_again;
}

static void
on_opened(cadre_shard_t *self, const cadre_checkpoint_load_t *load, cadre_outbox_t *outbox)
{
    int status = load->status < 0 ? cadre_fail(load->status, "%s: %s", load->path, load->text) : 0;
    if (status == 0) {
        self->loading = true;
#define TAKE_OVER(name) self->counters[CADRE_PS_COUNTER_##name] = load->state.name;
        CADRE_SHARD_COUNTER_LIST(TAKE_OVER)
#undef TAKE_OVER
        self->generation = self->restored;
    }
    self->opening.load = 0;
    reply_later(self, &self->opening.asker, status, outbox);
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
        cadre_shard_add_part(self, part);
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

/* --- asked after --- */

static bool
is_asker(const cadre_shard_asker_t *self, const cadre_shard_question_t *question, uint64_t request)
{
    return question->plane == CADRE_PLANE_CONTROL && self->request == request &&
           cadre_task_equal(&self->from, question->from);
}

bool
cadre_shard_is_loading(const cadre_shard_t *self, const cadre_shard_question_t *question,
                       uint64_t request)
{
    if (self->opening.load > 0 && is_asker(&self->opening.asker, question, request)) {
        return true;
    }
    const cadre_shard_loading_t *loading = NULL;
    for (size_t cursor = 0; (loading = cadre_u64_map_next(&self->loading_parts, &cursor));) {
        if (is_asker(&loading->asker, question, request)) {
            return true;
        }
    }
    return false;
}

/* --- given up --- */

void
cadre_shard_drop_loads(cadre_shard_t *self, uint64_t variable, cadre_outbox_t *outbox)
{
    const cadre_shard_loading_t *next = NULL;
    if (self->loading_parts.count == 0) {
        return; /* the map is as large as it once was */
    }
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
    self->opening.load = 0;
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
