#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/core/worker_state.h"

/* What one request asked of one shard: which parts of its run, in the order of the message. */
typedef struct {
    bool push;
    size_t count;
    size_t parts[];
} request_note_t;

static size_t
part_size_bytes(const cadre_run_part_t *part)
{
    return cadre_variable_entry_layout(part->variable, part->partition).size_bytes;
}

/* The parts of `run` on `shard` from the part *at on, and moves *at behind them; NULL when there
 * are none. For a pull as many as one message takes, whole parts only: the values of one are one
 * version (docs/protocol.md#i4-one-version). A push is all of them: it is applied in one turn. */
static request_note_t *
next_note(const cadre_run_t *run, uint32_t shard, bool push, size_t *at)
{
    size_t chunks = 0;
    request_note_t *note = NULL;
    for (; *at < run->part_count; ++*at) {
        const cadre_run_part_t *part = &run->parts[*at];
        if (part->shard != shard) {
            continue;
        }
        chunks += cadre_variable_entry_layout(part->variable, part->partition).count;
        bool is_full =
            note && !push &&
            (note->count == CADRE_PARTITIONS_PER_UPDATE_MAX || chunks > CADRE_MESSAGE_CHUNKS_MAX);
        if (is_full) {
            return note;
        }
        if (!note) {
            size_t room = run->part_count - *at;
            note = cadre_calloc(1, sizeof(*note) + room * sizeof(note->parts[0]));
            note->push = push;
        }
        note->parts[note->count++] = *at;
    }
    return note;
}

/* (variable, partition, number) for each part: the version held for a pull, the one pulled for a
 * push. */
static uint64_t *
new_triples(const cadre_worker_core_t *self, const cadre_run_t *run, const request_note_t *note,
            uint64_t generation)
{
    uint64_t *items = cadre_calloc(3 * note->count, sizeof(*items));
    for (size_t i = 0; i < note->count; i++) {
        const cadre_run_part_t *part = &run->parts[note->parts[i]];
        items[3 * i] = part->variable->id;
        items[3 * i + 1] = part->partition;
        if (note->push) {
            items[3 * i + 2] = part->version;
        } else {
            const cadre_cached_value_t *held = cadre_value_cache_get(
                &self->cache, part->variable->id, part->partition, generation);
            items[3 * i + 2] = held ? held->version + 1 : 0;
        }
    }
    return items;
}

/* Nothing goes to a shard while the coordinator may have given this worker up. */
static void
pump(cadre_worker_core_t *self, uint32_t shard, uint64_t now_ms)
{
    if (cadre_worker_core_in_touch(self, now_ms)) {
        cadre_shard_link_pump(&self->links[shard], now_ms, &self->outbox);
    }
}

/* --- a push, cut into messages --- */

typedef struct {
    const cadre_worker_core_t *core;
    cadre_message_t head; /* what all of them say */
    cadre_message_t *messages;
    size_t count;
    size_t size_bytes; /* of the last one's chunks */
} cutter_t;

static cadre_message_t *
begin_message(cutter_t *self, uint64_t *items)
{
    self->messages = cadre_realloc(self->messages, self->count + 1, sizeof(*self->messages));
    cadre_message_t *message = &self->messages[self->count];
    *message = self->head;
    message->push.partitions.items = items;
    message->push.part = self->count++;
    self->size_bytes = 0;
    return message;
}

/* Cuts the parts of `note` into messages of so many partitions, chunks and bytes; `items`: their
 * triples, one after the other. */
static void
cut_push(cutter_t *self, const cadre_run_t *run, const request_note_t *note, uint64_t *items)
{
    const size_t partitions_max = self->core->options.partitions_max;
    const size_t size_max = self->core->options.push_part_size;
    cadre_message_t *message = begin_message(self, items);
    for (size_t i = 0; i < note->count; i++) {
        const cadre_run_part_t *part = &run->parts[note->parts[i]];
        if (message->push.partitions.count == 3 * partitions_max) {
            message = begin_message(self, items + 3 * i);
        }
        message->push.partitions.count += 3;
        for (size_t k = 0; k < part->chunk_count; k++) {
            size_t size_bytes = cadre_chunk_size_bytes(part->chunks[k]);
            if (message->chunk_count == CADRE_MESSAGE_CHUNKS_MAX ||
                (message->chunk_count > 0 && self->size_bytes + size_bytes > size_max)) {
                message = begin_message(self, items + 3 * (i + 1));
            }
            cadre_message_add_chunk(message, cadre_chunk_ref(part->chunks[k]));
            self->size_bytes += size_bytes;
        }
    }
}

/* Makes the messages of a push, and the one that asks for room for them. */
static void
make_push(const cadre_worker_core_t *self, const cadre_run_t *run, const cadre_task_t *ps,
          const cadre_message_t *head, uint64_t *items, cadre_link_request_t *request)
{
    cutter_t cutter = {.core = self, .head = *head};
    cut_push(&cutter, run, request->context, items);
    request->part_count = cutter.count - 1;
    request->parts =
        request->part_count ? cadre_calloc(request->part_count, sizeof(*request->parts)) : NULL;
    for (size_t i = 0; i < cutter.count; i++) {
        cutter.messages[i].push.parts = cutter.count > 1 ? cutter.count : 0;
        cadre_outbox_entry_init(i == 0 ? &request->entry : &request->parts[i - 1], ps,
                                &cutter.messages[i]);
    }
    free(cutter.messages);
    cadre_message_t reserve = *head;
    reserve.type = CADRE_MESSAGE_RESERVE;
    reserve.reserve =
        (cadre_reserve_message_t){.update = head->push.update,
                                  .generation = head->push.generation,
                                  .size_bytes = request->size_bytes ? request->size_bytes : 1};
    cadre_outbox_entry_init(&request->reserve, ps, &reserve);
}

static void
ask_shard(cadre_worker_core_t *self, cadre_run_t *run, uint32_t shard, request_note_t *note,
          uint64_t now_ms)
{
    const cadre_shard_entry_t *entry = &self->directory.shards[shard];
    uint64_t *items = new_triples(self, run, note, entry->generation);
    cadre_message_t message =
        cadre_worker_message(self, note->push ? CADRE_MESSAGE_PUSH : CADRE_MESSAGE_PULL);
    message.request = ++self->request_last;
    cadre_link_request_t request = {.request = message.request,
                                    .closure = cadre_run_id(run),
                                    .context = note,
                                    .asked_ms = now_ms};
    for (size_t i = 0; i < note->count; i++) {
        request.size_bytes += part_size_bytes(&run->parts[note->parts[i]]);
    }
    if (note->push) {
        message.push = (cadre_push_message_t){.update = cadre_run_id(run) + run->step,
                                              .attempt = run->attempt,
                                              .generation = entry->generation,
                                              .checkpoint = run->message.closure.checkpoint,
                                              .cut = run->message.closure.cut};
        request.update = message.push.update;
        self->counters[CADRE_WORKER_COUNTER_push_bytes] += request.size_bytes;
        self->pushes.sent++;
        make_push(self, run, &entry->task, &message, items, &request);
    } else {
        message.pull = (cadre_pull_message_t){.generation = entry->generation,
                                              .partitions = {items, 3 * note->count}};
        cadre_outbox_entry_init(&request.entry, &entry->task, &message);
    }
    free(items);
    cadre_shard_link_ask(&self->links[shard], &request);
    pump(self, shard, now_ms);
}

/* Whether every shard of the operation is there, and is the one that the run began with: what is
 * done to one that was restored since may come before its turn in the replay. */
static bool
can_ask(const cadre_worker_core_t *self, cadre_run_t *run)
{
    for (size_t i = 0; i < run->part_count; i++) {
        uint32_t shard = run->parts[i].shard;
        const cadre_shard_entry_t *entry = &self->directory.shards[shard];
        char text[CADRE_TEXT_SIZE_MAX];
        if (entry->away || entry->restored > run->restores) {
            snprintf(text, sizeof(text),
                     entry->away ? "ps %u is away" : "ps %u began anew while the closure ran",
                     shard);
            run->failed_shard = shard;
            cadre_run_fail(run, CADRE_FAILURE_SHARD, CADRE_EUNAVAILABLE, text);
            return false;
        }
        if (self->links[shard].unreachable) {
            snprintf(text, sizeof(text), "ps %u cannot be reached from here", shard);
            run->failed_shard = shard;
            cadre_run_fail(run, CADRE_FAILURE_SHARD, CADRE_ETIMEOUT, text);
            return false;
        }
    }
    return true;
}

/* Asks every shard that has a part of the run's operation, or none. */
static void
ask_shards(cadre_worker_core_t *self, cadre_run_t *run, bool push, uint64_t now_ms)
{
    if (!can_ask(self, run)) {
        return;
    }
    run->touched = true;
    for (uint32_t shard = 0; shard < self->directory.shard_count; shard++) {
        size_t at = 0;
        request_note_t *note = NULL;
        while ((note = next_note(run, shard, push, &at))) {
            run->pending++;
            ask_shard(self, run, shard, note, now_ms);
        }
    }
}

/* --- the end of an operation --- */

/* The number of the content of the variable whose parts begin at `parts`. */
static uint64_t
content_of(cadre_worker_core_t *self, const cadre_run_part_t *parts)
{
    const cadre_variable_entry_t *variable = parts[0].variable;
    uint64_t *pairs = cadre_calloc(2 * (size_t)variable->partitions, sizeof(*pairs));
    for (uint32_t i = 0; i < variable->partitions; i++) {
        pairs[2 * (size_t)i] = parts[i].generation;
        pairs[2 * (size_t)i + 1] = parts[i].version;
    }
    uint64_t number =
        cadre_value_cache_content(&self->cache, variable->id, pairs, variable->partitions);
    free(pairs);
    return number;
}

static cadre_value_t *
end_pull(cadre_worker_core_t *self, cadre_run_t *run, size_t *count)
{
    uint64_t *contents = cadre_calloc(run->part_count, sizeof(*contents));
    size_t variables = 0;
    for (size_t i = 0; i < run->part_count; i += run->parts[i].variable->partitions) {
        contents[variables++] = content_of(self, &run->parts[i]);
    }
    cadre_value_t *values = cadre_run_end_pull(run, count);
    cadre_assert(*count == variables);
    for (size_t i = 0; i < variables; i++) {
        values[i].content = contents[i];
    }
    free(contents);
    return values;
}

static void
end_operation(cadre_worker_core_t *self, cadre_run_t *run)
{
    bool push = run->state == CADRE_RUN_PUSHING;
    cadre_worker_event_t event = {.kind = push ? CADRE_WORKER_PUSHED : CADRE_WORKER_VALUES,
                                  .run = run,
                                  .closure = cadre_run_id(run),
                                  .index = run->slot,
                                  .status = run->status};
    cadre_run_set_state(run, CADRE_RUN_COMPUTING);
    if (run->status < 0) {
        snprintf(event.text, sizeof(event.text), "%s", run->text);
        cadre_run_end_parts(run);
    } else if (push) {
        run->step++;
        cadre_run_end_parts(run);
    } else {
        event.values = end_pull(self, run, &event.value_count);
    }
    cadre_worker_emit(self, &event);
}

static void
part_answered(cadre_worker_core_t *self, cadre_run_t *run)
{
    cadre_assert(run->pending > 0);
    if (--run->pending == 0) {
        end_operation(self, run);
    }
}

void
cadre_worker_abandon(cadre_worker_core_t *self, cadre_run_t *run)
{
    if (run->state != CADRE_RUN_PULLING && run->state != CADRE_RUN_PUSHING) {
        return;
    }
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        self->pushes.abandoned += self->links[i].pushes;
        cadre_shard_link_forget(&self->links[i], cadre_run_id(run));
        self->pushes.abandoned -= self->links[i].pushes;
    }
    run->pending = 0;
    cadre_run_fail(run, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled");
    end_operation(self, run);
}

/* --- pull --- */

void
cadre_worker_core_pull(cadre_worker_core_t *self, cadre_run_t *run,
                       const cadre_variable_entry_t *const *variables, size_t count,
                       uint64_t now_ms)
{
    cadre_run_set_state(run, CADRE_RUN_PULLING);
    run->status = 0;
    run->received_bytes = 0;
    if (atomic_load(&run->cancelled)) {
        cadre_run_fail(run, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled");
    } else {
        cadre_run_begin_pull(run, variables, count);
        ask_shards(self, run, false, now_ms);
    }
    if (run->pending == 0) {
        end_operation(self, run);
    }
}

/* Whether the chunks of an answer are what the partition's layout says. */
static bool
chunks_fit(const cadre_run_part_t *part, cadre_chunk_t *const *chunks, size_t count)
{
    const cadre_chunk_layout_t layout =
        cadre_variable_entry_layout(part->variable, part->partition);
    if (layout.count != count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (cadre_chunk_size_bytes(chunks[i]) != cadre_chunk_layout_size(&layout, i)) {
            return false;
        }
    }
    return true;
}

/* Fills one part from the answer's chunks, or from the cache when there are none. */
static int
take_part(cadre_worker_core_t *self, cadre_run_part_t *part, uint64_t version, uint64_t generation,
          cadre_chunk_t **chunks, size_t count)
{
    const cadre_cached_value_t *held =
        cadre_value_cache_get(&self->cache, part->variable->id, part->partition, generation);
    if (count == 0 && held && held->version >= version) {
        chunks = held->chunks;
        count = held->chunk_count;
        version = held->version;
    } else if (!chunks_fit(part, chunks, count)) {
        return CADRE_EMALFORMED;
    } else if (!part->variable->is_gone) {
        cadre_value_cache_put(&self->cache, part->variable->id, part->partition,
                              &(cadre_cached_value_t){.generation = generation,
                                                      .version = version,
                                                      .chunks = chunks,
                                                      .chunk_count = count});
    }
    part->version = version;
    part->generation = generation;
    part->chunks = cadre_calloc(count, sizeof(cadre_chunk_t *));
    part->chunk_count = count;
    for (size_t i = 0; i < count; i++) {
        part->chunks[i] = cadre_chunk_ref(chunks[i]);
    }
    return 0;
}

static int
take_parts(cadre_worker_core_t *self, cadre_run_t *run, const request_note_t *note,
           const cadre_message_t *message)
{
    const cadre_values_message_t *values = &message->values;
    if (values->partitions.count != 2 * note->count) {
        return CADRE_EMALFORMED;
    }
    size_t at = 0;
    for (size_t i = 0; i < note->count; i++) {
        size_t count = values->partitions.items[2 * i + 1];
        if (count > message->chunk_count - at ||
            take_part(self, &run->parts[note->parts[i]], values->partitions.items[2 * i],
                      values->generation, message->chunks + at, count) < 0) {
            return CADRE_EMALFORMED;
        }
        at += count;
    }
    if (at != message->chunk_count) {
        return CADRE_EMALFORMED;
    }
    for (size_t i = 0; i < at; i++) { /* parts that have not changed come without chunks */
        run->received_bytes += cadre_chunk_size_bytes(message->chunks[i]);
        self->counters[CADRE_WORKER_COUNTER_pull_bytes] +=
            cadre_chunk_size_bytes(message->chunks[i]);
    }
    return 0;
}

/* Takes the request with this id, and its run; NULL when it is not awaited. */
static cadre_run_t *
take_request(cadre_worker_core_t *self, uint32_t shard, uint64_t id, cadre_link_request_t *request,
             uint64_t now_ms)
{
    if (!cadre_shard_link_answered(&self->links[shard], id, now_ms, request)) {
        return NULL;
    }
    pump(self, shard, now_ms);
    cadre_run_t *run = cadre_u64_map_get(&self->runs, request->closure);
    cadre_assert(run);
    return run;
}

/* The shard has said something: it can be reached, if it could not. */
static void
hear(cadre_worker_core_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    if (link->unreachable) {
        cadre_worker_event_t event = {.kind = CADRE_WORKER_UNREACHABLE, .index = shard};
        snprintf(event.text, sizeof(event.text), "ps %u is heard again", shard);
        cadre_worker_emit(self, &event);
        cadre_worker_hurry_heartbeat(self, now_ms);
    }
    cadre_shard_link_heard(link, now_ms);
}

/* Takes the request that `message` answers, and its run; NULL for a late or foreign answer. */
static cadre_run_t *
answered(cadre_worker_core_t *self, uint32_t shard, const cadre_message_t *message,
         cadre_link_request_t *request, uint64_t now_ms)
{
    hear(self, shard, now_ms);
    return take_request(self, shard, message->request, request, now_ms);
}

/* What the ps lets this worker push unasked; 0: it says nothing of that. */
static void
take_window(cadre_shard_link_t *link, uint64_t window)
{
    link->window = window ? (size_t)window : link->window;
}

/* A refusal by the shard: fenced ones are run again, others are the function's fault. */
static void
refused(cadre_worker_core_t *self, cadre_run_t *run, uint32_t shard, uint64_t status,
        const char *text)
{
    run->failed_shard = shard;
    char line[CADRE_TEXT_SIZE_MAX + 1];
    snprintf(line, sizeof(line), "ps %u: %s", shard, text);
    int code = -(int)status;
    self->links[shard].doubted = self->links[shard].doubted || code == CADRE_EFENCED;
    cadre_run_fail(run, code == CADRE_EFENCED ? CADRE_FAILURE_SHARD : CADRE_FAILURE_USER, code,
                   line);
}

void
cadre_worker_on_values(cadre_worker_core_t *self, uint32_t shard, cadre_message_t *message,
                       uint64_t now_ms)
{
    cadre_link_request_t request;
    take_window(&self->links[shard], message->values.window);
    cadre_run_t *run = answered(self, shard, message, &request, now_ms);
    if (!run) {
        return;
    }
    const request_note_t *note = request.context;
    if (note->push || run->state != CADRE_RUN_PULLING) {
        self->pushes.abandoned += note->push;
        cadre_worker_core_malformed(self);
        cadre_run_fail(run, CADRE_FAILURE_USER, CADRE_EMALFORMED, "VALUES in answer to PUSH");
    } else if (message->values.status != 0) {
        refused(self, run, shard, message->values.status, message->values.text);
    } else if (take_parts(self, run, note, message) < 0) {
        cadre_worker_core_malformed(self);
        cadre_run_fail(run, CADRE_FAILURE_USER, CADRE_EMALFORMED,
                       "VALUES do not fit the partitions that were asked for");
    }
    cadre_link_request_fini(&request);
    part_answered(self, run);
}

/* --- push --- */

void
cadre_worker_core_push(cadre_worker_core_t *self, cadre_run_t *run,
                       const cadre_gradient_t *gradients, size_t count, uint64_t now_ms)
{
    cadre_run_set_state(run, CADRE_RUN_PUSHING);
    run->status = 0;
    int status = 0;
    if (atomic_load(&run->cancelled)) {
        cadre_run_fail(run, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled");
    } else if (run->step >= run->message.closure.steps) {
        cadre_run_fail(run, CADRE_FAILURE_USER, CADRE_EFULL,
                       run->builds ? "a function that builds a resource pushes nothing"
                                   : "more steps than the closure was scheduled with");
    } else if ((status = cadre_run_begin_push(run, gradients, count)) < 0) {
        run->status = 0;
        cadre_run_fail(run, CADRE_FAILURE_USER, status, cadre_error_text());
    } else {
        ask_shards(self, run, true, now_ms);
    }
    if (run->pending == 0) {
        end_operation(self, run);
    }
}

static void
count_duplicate(cadre_worker_core_t *self, cadre_run_t *run)
{
    run->totals.duplicates++;
    self->counters[CADRE_WORKER_COUNTER_duplicate]++;
}

void
cadre_worker_on_applied(cadre_worker_core_t *self, uint32_t shard, const cadre_message_t *message,
                        uint64_t now_ms)
{
    cadre_link_request_t request;
    take_window(&self->links[shard], message->applied.window);
    cadre_run_t *run = answered(self, shard, message, &request, now_ms);
    if (!run) {
        return;
    }
    const cadre_applied_message_t *applied = &message->applied;
    if (applied->status == 0) {
        run->totals.updates++;
        self->counters[CADRE_WORKER_COUNTER_applied]++;
        const request_note_t *note = request.context;
        cadre_worker_observe(self, run, note->parts, note->count, applied);
        if (applied->staleness > run->totals.staleness) {
            run->totals.staleness = applied->staleness;
        }
    } else if (applied->status == (uint64_t)-CADRE_EDUPLICATE) {
        count_duplicate(self, run);
    } else {
        self->counters[CADRE_WORKER_COUNTER_refused]++;
        refused(self, run, shard, applied->status, applied->text);
    }
    cadre_link_request_fini(&request);
    part_answered(self, run);
}

/* --- what becomes of requests that wait --- */

static void
probe(cadre_worker_core_t *self, uint32_t shard, uint64_t now_ms)
{
    uint64_t triples[3 * CADRE_PROBE_REQUESTS_MAX];
    const cadre_shard_entry_t *entry = &self->directory.shards[shard];
    uint64_t number = self->request_last + 1;
    size_t count = 0;
    if (!cadre_shard_link_probe(&self->links[shard], now_ms, number, triples, &count)) {
        return;
    }
    self->request_last = number;
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_PROBE);
    message.request = number;
    message.probe =
        (cadre_probe_message_t){.generation = entry->generation, .requests = {triples, 3 * count}};
    cadre_outbox_send(&self->outbox, &entry->task, &message);
}

/* The update is in, and only the answer to its PUSH was lost. */
static void
end_applied(cadre_worker_core_t *self, uint32_t shard, uint64_t id, uint64_t now_ms)
{
    cadre_link_request_t request;
    cadre_run_t *run = take_request(self, shard, id, &request, now_ms);
    if (run) {
        count_duplicate(self, run);
        cadre_link_request_fini(&request);
        part_answered(self, run);
    }
}

void
cadre_worker_on_probed(cadre_worker_core_t *self, uint32_t shard, const cadre_message_t *message,
                       uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    const cadre_u64s_t *states = &message->probed.states;
    hear(self, shard, now_ms);
    for (size_t i = 0; i + 1 < states->count; i += 2) {
        uint64_t id = states->items[i];
        if (states->items[i + 1] == CADRE_PROBED_APPLIED) {
            end_applied(self, shard, id, now_ms);
        } else if (cadre_worker_core_in_touch(self, now_ms)) {
            cadre_shard_link_lost(link, id, message->request,
                                  states->items[i + 1] == CADRE_PROBED_QUEUED, &self->outbox);
        }
    }
}

/* There is room for a PUSH. One that nobody wants any more gives it back, and one that may not go
 * now: others wait for the room, and a PROBE finds out that it has to be asked for again. */
void
cadre_worker_on_grant(cadre_worker_core_t *self, uint32_t shard, const cadre_message_t *message,
                      uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    const cadre_shard_entry_t *entry = &self->directory.shards[shard];
    cadre_shard_link_heard(link, now_ms);
    take_window(link, message->grant.window);
    if (!link->open) {
        return; /* it is said again */
    }
    bool goes = cadre_worker_core_in_touch(self, now_ms) &&
                cadre_shard_link_granted(link, message->request, &self->outbox);
    if (!goes) {
        cadre_message_t release = cadre_worker_message(self, CADRE_MESSAGE_RESERVE);
        release.request = message->request;
        release.reserve.generation = entry->generation;
        cadre_outbox_send(&self->outbox, &entry->task, &release);
    }
}

/* Ends every request to a shard with this failure. */
static void
fail_requests(cadre_worker_core_t *self, uint32_t shard, int status, const char *text,
              uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    while (link->first) {
        cadre_link_request_t request;
        cadre_shard_link_answered(link, link->first->request, now_ms, &request);
        self->pushes.abandoned += ((const request_note_t *)request.context)->push;
        cadre_link_request_fini(&request);
        cadre_run_t *run = cadre_u64_map_get(&self->runs, request.closure);
        cadre_assert(run);
        run->failed_shard = shard;
        cadre_run_fail(run, CADRE_FAILURE_SHARD, status, text);
        part_answered(self, run);
    }
}

/* What waits for the shard is given up: others may reach it. A PUSH that has come nevertheless is
 * told from that of the next attempt by its update id. */
static void
give_up_shard(cadre_worker_core_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    char text[CADRE_TEXT_SIZE_MAX];
    snprintf(text, sizeof(text), "ps %u has said nothing to worker %u for %" PRIu64 " ms", shard,
             self->options.task.index, now_ms - cadre_shard_link_owed_ms(link));
    cadre_shard_link_give_up(link, now_ms);
    cadre_worker_event_t event = {
        .kind = CADRE_WORKER_UNREACHABLE, .index = shard, .status = CADRE_ETIMEOUT};
    snprintf(event.text, sizeof(event.text), "%s", text);
    cadre_worker_emit(self, &event);
    cadre_worker_hurry_heartbeat(self, now_ms);
    fail_requests(self, shard, CADRE_ETIMEOUT, text, now_ms);
}

static uint64_t
tick_link(cadre_worker_core_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    uint64_t timeout_ms = self->options.shard_timeout_ms;
    if (cadre_shard_link_is_over(link, now_ms, timeout_ms)) {
        give_up_shard(self, shard, now_ms);
    }
    if (cadre_shard_link_is_mute(link, now_ms)) {
        link->mutes++;
        cadre_worker_emit(self, &(cadre_worker_event_t){.kind = CADRE_WORKER_SHARD_MOVED,
                                                        .index = shard,
                                                        .status = CADRE_ETIMEOUT});
        cadre_shard_link_repeat(link, now_ms, &self->outbox);
    }
    pump(self, shard, now_ms);
    probe(self, shard, now_ms);
    return cadre_shard_link_due_ms(link, timeout_ms);
}

uint64_t
cadre_worker_tick_links(cadre_worker_core_t *self, uint64_t now_ms)
{
    uint64_t due_ms = UINT64_MAX;
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        uint64_t link_due_ms = tick_link(self, i, now_ms);
        due_ms = link_due_ms < due_ms ? link_due_ms : due_ms;
    }
    return due_ms;
}

/* --- a shard that moved --- */

void
cadre_worker_shard_moved(cadre_worker_core_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    bool away = self->directory.shards[shard].away;
    char text[CADRE_TEXT_SIZE_MAX];
    snprintf(text, sizeof(text), away ? "ps %u is away" : "ps %u was replaced", shard);
    fail_requests(self, shard, CADRE_EUNAVAILABLE, text, now_ms);
    if (link->unreachable) {
        link->unreachable = false; /* of who serves it now nothing is known */
        cadre_worker_hurry_heartbeat(self, now_ms);
    }
    link->open = !away;
    link->connected_ms = now_ms;
    link->mutes = 0;
    link->window = self->options.window;
    cadre_worker_emit(self,
                      &(cadre_worker_event_t){.kind = CADRE_WORKER_SHARD_MOVED, .index = shard});
}
