#include "worker/core/worker_values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/uninitialized.h"
#include "worker/core/pull_cut.h"
#include "worker/core/pull_intake.h"
#include "worker/core/push_cut.h"
#include "worker/core/shard_link.h"
#include "worker/core/value_cache.h"

/* How long a shard may owe an answer before the coordinator is asked who serves it. */
enum { DOUBT_MS = 1000 };

struct cadre_worker_values {
    cadre_worker_values_options_t options;
    const cadre_directory_t *directory;
    cadre_worker_effects_t *effects;
    cadre_worker_counters_t *counters;
    cadre_value_cache_t cache;
    cadre_row_cache_t *rows;
    cadre_shard_link_t *links;  /* [directory->shard_count] */
    uint64_t request_last;      /* id of the last request; ids only go up */
    bool in_touch;              /* the coordinator is in touch; while it is not, requests wait */
    cadre_push_totals_t pushes; /* without what open links count themselves: `pending`, and their
                                   share of `repeated` */
    cadre_staleness_t staleness;
};

/* What one request asked of one shard: which parts of its run, in the order of the message. */
typedef struct {
    cadre_run_t *run; /* lives at least until the request is answered or forgotten */
    bool push;        /* PUSH; else PULL */
    uint64_t rows;    /* without those of whole partitions */
    size_t count;
    size_t parts[]; /* [count]: indexes into `run->parts` */
} request_note_t;

/* Returns the bytes of a part (one partition, or rows of one) in messages: of a pull those of the
 * question or the answer, whichever are more. */
static size_t
part_size_bytes(const cadre_run_part_t *part, bool push)
{
    const size_t ids_size_bytes = part->id_count * sizeof(*part->ids);
    const size_t size_bytes = cadre_run_part_layout(part).size_bytes;
    if (push) {
        return ids_size_bytes + size_bytes;
    }
    return ids_size_bytes > size_bytes ? ids_size_bytes : size_bytes;
}

/* --- a session --- */

/* Returns an object without a session: it has links to shards from begin_session on. */
cadre_worker_values_t *
cadre_worker_values_new(const cadre_worker_values_options_t *options,
                        const cadre_directory_t *directory, cadre_worker_effects_t *effects,
                        cadre_worker_counters_t *counters)
{
    cadre_worker_values_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->directory = directory;
    self->effects = effects;
    self->counters = counters;
    self->cache.content_last = options->content_last;
    self->rows = cadre_row_cache_new(options->row_cache_bytes, options->row_cache_patient);
    return self;
}

/* Drops the cache and all requests to shards, whose answers nobody waits for any more. */
void
cadre_worker_values_end_session(cadre_worker_values_t *self)
{
    cadre_value_cache_fini(&self->cache);
    cadre_row_cache_clear(self->rows);
    for (uint32_t i = 0; self->links && i < self->directory->shard_count; i++) {
        self->pushes.repeated += self->links[i].repeated;
        cadre_shard_link_fini(&self->links[i]);
    }
    free(self->links);
    self->links = NULL;
}

/* Makes a link, without requests, to each shard that the directory has. */
void
cadre_worker_values_begin_session(cadre_worker_values_t *self)
{
    self->links = cadre_calloc(self->directory->shard_count, sizeof(*self->links));
    for (uint32_t i = 0; i < self->directory->shard_count; i++) {
        cadre_shard_link_init(&self->links[i], self->options.window);
    }
}

void
cadre_worker_values_destroy(cadre_worker_values_t **self_p)
{
    cadre_worker_values_t *self = *self_p;
    if (!self) {
        return;
    }
    cadre_worker_values_end_session(self);
    cadre_row_cache_destroy(&self->rows);
    cadre_staleness_fini(&self->staleness);
    cadre_free(self_p);
}

void
cadre_worker_values_set_touch(cadre_worker_values_t *self, bool in_touch)
{
    self->in_touch = in_touch;
}

void
cadre_worker_values_excuse(cadre_worker_values_t *self, uint64_t late_ms, uint64_t now_ms)
{
    for (uint32_t i = 0; i < self->directory->shard_count; i++) {
        cadre_shard_link_excuse(&self->links[i], late_ms, now_ms);
    }
}

/* Drops the cached values of variables that are gone: no closure can name them any more. */
void
cadre_worker_values_forget_gone(cadre_worker_values_t *self)
{
    const cadre_variable_entry_t *entry = NULL;
    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->directory->variables, &cursor));) {
        if (entry->is_gone) {
            cadre_value_cache_forget(&self->cache, entry->id, entry->partitions);
            cadre_row_cache_forget(self->rows, entry->id, entry->partitions);
        }
    }
}

/* --- figures for heartbeats, status and tests --- */

const cadre_cached_value_t *
cadre_worker_values_held(const cadre_worker_values_t *self, uint32_t variable, uint32_t partition,
                         uint64_t generation)
{
    return cadre_value_cache_get(&self->cache, variable, partition, generation);
}

/* Returns the set of shards that this worker cannot reach; empty before the first session. */
cadre_shard_set_t
cadre_worker_values_unreachable(const cadre_worker_values_t *self)
{
    cadre_shard_set_t set = {.words = {0}};
    for (uint32_t i = 0; self->links && i < self->directory->shard_count; i++) {
        if (self->links[i].unreachable) {
            cadre_shard_set_put(&set, i);
        }
    }
    return set;
}

/* Returns whether the shard may be served by another ps than this worker believes: a request came
 * back fenced, or none was answered for DOUBT_MS. */
bool
cadre_worker_values_doubts(const cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms)
{
    const cadre_shard_link_t *link = &self->links[shard];
    uint64_t owed_ms = cadre_shard_link_owed_ms(link);
    return link->doubted || (now_ms > owed_ms && now_ms - owed_ms >= DOUBT_MS);
}

/* Fills in which closures have waited longer than CADRE_WAIT_NAMED_MS for which shard, as HEARTBEAT
 * tells it; returns how many entries there are. The list of a link is oldest first, so it ends at
 * the first young request. Builds of resources are no closures and are not named. */
size_t
cadre_worker_values_waits(const cadre_worker_values_t *self, uint64_t now_ms,
                          cadre_wait_t waits[CADRE_WAITS_MAX])
{
    size_t count = 0;
    for (uint32_t shard = 0; shard < self->directory->shard_count; shard++) {
        uint64_t last = 0; /* name a closure once: its requests stand side by side in the list */
        const cadre_link_request_t *request = self->links[shard].first;
        for (; request && request->asked_ms + CADRE_WAIT_NAMED_MS <= now_ms &&
               count < CADRE_WAITS_MAX;
             request = request->next) {
            if (request->closure != last && request->closure < CADRE_BUILD_IDS) {
                waits[count++] =
                    (cadre_wait_t){request->closure, shard, now_ms - request->asked_ms};
            }
            last = request->closure;
        }
    }
    return count;
}

/* Returns what became of the updates so far: the sums over earlier sessions, and what the links
 * have. */
cadre_push_totals_t
cadre_worker_values_pushes(const cadre_worker_values_t *self)
{
    cadre_push_totals_t totals = self->pushes;
    for (uint32_t i = 0; self->links && i < self->directory->shard_count; i++) {
        totals.pending += self->links[i].pushes;
        totals.repeated += self->links[i].repeated;
    }
    return totals;
}

const cadre_staleness_t *
cadre_worker_values_staleness(const cadre_worker_values_t *self)
{
    return &self->staleness;
}

/* --- requests to a shard --- */

/* Returns a note of which parts (partitions) of the run the next request to `shard` asks for, from
 * part *at on, and moves *at behind them; NULL when no further part is there. A pull names as many
 * parts as one message takes, each whole: its values must be of one version
 * (docs/protocol.md#i4-one-version). A push names all, since the shard applies an update in one
 * turn. */
static request_note_t *
next_note(cadre_run_t *run, uint32_t shard, bool push, size_t *at)
{
    cadre_pull_cut_t pull = {.parts = 0};
    request_note_t *note = NULL;
    for (; *at < run->part_count; ++*at) {
        const cadre_run_part_t *part = &run->parts[*at];
        if (part->shard != shard) {
            continue;
        }
        if (!push && !cadre_pull_cut_add(&pull, part)) {
            return note;
        }
        if (!note) {
            size_t room = run->part_count - *at;
            note = cadre_calloc(1, sizeof(*note) + room * sizeof(note->parts[0]));
            note->run = run;
            note->push = push;
        }
        note->parts[note->count++] = *at;
        note->rows += part->id_count;
    }
    return note;
}

/* Returns the parts (partitions) of a request as its message names them, with a number each: for a
 * push the version that the gradient was computed from, for a pull the version in this worker's
 * cache plus 1; 0: none is cached. */
static cadre_part_t *
new_parts(const cadre_worker_values_t *self, const cadre_run_t *run, const request_note_t *note,
          uint64_t generation)
{
    cadre_part_t *items = cadre_calloc(note->count, sizeof(*items));
    for (size_t i = 0; i < note->count; i++) {
        const cadre_run_part_t *part = &run->parts[note->parts[i]];
        items[i] = (cadre_part_t){.variable = part->variable->id, .partition = part->partition};
        if (note->push) {
            items[i].number = part->version;
        } else {
            const cadre_cached_value_t *held = cadre_value_cache_get(
                &self->cache, part->variable->id, part->partition, generation);
            items[i].number = held ? held->version + 1 : 0;
        }
    }
    return items;
}

/* Makes the PULL for the parts in `note`. */
static void
make_pull(const cadre_worker_values_t *self, cadre_message_t *message,
          const cadre_shard_entry_t *entry, cadre_link_request_t *request)
{
    const request_note_t *note = request->context;
    message->pull = (cadre_pull_message_t){.generation = entry->generation};
    if (note->run->parts[note->parts[0]].ids) {
        cadre_run_part_t *parts = note->run->parts;
        for (size_t i = 0; i < note->count; i++) {
            cadre_pull_intake_hold(self->rows, &parts[note->parts[i]], entry->generation);
        }
        cadre_auto(cadre_free) cadre_row_part_t *rows =
            cadre_pull_cut_name_rows(parts, note->parts, note->count, message);
        cadre_auto(cadre_free) uint64_t *held =
            cadre_pull_cut_name_held(parts, note->parts, note->count, message);
        message->pull.rows = cadre_row_part_list(rows, note->count);
        message->pull.held = (cadre_u64s_t){held, held ? note->count : 0};
        cadre_outbox_entry_init(&request->entry, &entry->task, message);
        return;
    }
    cadre_auto(cadre_free) cadre_part_t *parts =
        new_parts(self, note->run, note, entry->generation);
    message->pull.partitions = cadre_part_list(parts, note->count);
    cadre_outbox_entry_init(&request->entry, &entry->task, message);
}

/* Sends what may go to the shard: nothing while the coordinator may have given this worker up. */
static void
pump(cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms)
{
    if (self->in_touch) {
        cadre_shard_link_pump(&self->links[shard], now_ms, &self->effects->outbox);
    }
}

/* Makes the messages of a push, and the one that asks for room for them. */
static void
make_push(const cadre_worker_values_t *self, const cadre_message_t *head,
          const cadre_shard_entry_t *entry, cadre_link_request_t *request)
{
    const request_note_t *note = request->context;
    cadre_auto(cadre_free) cadre_part_t *named =
        new_parts(self, note->run, note, entry->generation);
    cadre_push_content_t content = {
        .parts = note->run->parts, .indexes = note->parts, .count = note->count, .named = named};
    while (content.whole_count < note->count &&
           !note->run->parts[note->parts[content.whole_count]].ids) {
        content.whole_count++;
    }
    cadre_auto(cadre_free) cadre_pushed_rows_t *rows =
        cadre_calloc(note->count - content.whole_count, sizeof(*rows));
    for (size_t i = content.whole_count; i < note->count; i++) {
        const cadre_run_part_t *part = &note->run->parts[note->parts[i]];
        rows[i - content.whole_count] = (cadre_pushed_rows_t){.variable = part->variable->id,
                                                              .partition = part->partition,
                                                              .version = part->version,
                                                              .count = part->id_count};
    }
    content.named_rows = rows;
    const cadre_push_limits_t limits = {.partitions_max = self->options.partitions_max,
                                        .size_bytes_max = self->options.push_part_size};
    cadre_push_cut(&content, &limits, head, &entry->task, request);
}

/* Makes the PULL or PUSH for the parts in `note` (which it takes), appends it to the requests to
 * the shard, and sends what may go. */
static void
ask_shard(cadre_worker_values_t *self, cadre_run_t *run, uint32_t shard, request_note_t *note,
          uint64_t now_ms)
{
    const cadre_shard_entry_t *entry = &self->directory->shards[shard];
    cadre_message_t message = cadre_worker_effects_message(
        self->effects, note->push ? CADRE_MESSAGE_PUSH : CADRE_MESSAGE_PULL);
    message.request = ++self->request_last;
    cadre_link_request_t request = {.request = message.request,
                                    .closure = cadre_run_id(run),
                                    .context = note,
                                    .asked_ms = now_ms};
    for (size_t i = 0; i < note->count; i++) {
        request.size_bytes += part_size_bytes(&run->parts[note->parts[i]], note->push);
    }
    if (note->push) {
        /* The update id is the same in every attempt: by it the shard finds a duplicate (I1). */
        message.push = (cadre_push_message_t){.update = cadre_run_id(run) + run->step,
                                              .attempt = run->attempt,
                                              .generation = entry->generation,
                                              .checkpoint = run->call.message.closure.checkpoint,
                                              .cut = run->call.message.closure.cut,
                                              .step = run->call.message.closure.step};
        request.update = message.push.update;
        cadre_worker_counters_add(self->counters, CADRE_WORKER_COUNTER_push_bytes,
                                  request.size_bytes);
        cadre_worker_counters_add(self->counters, CADRE_WORKER_COUNTER_rows_pushed, note->rows);
        self->pushes.sent++;
        make_push(self, &message, entry, &request);
    } else {
        make_pull(self, &message, entry, &request);
    }
    cadre_shard_link_ask(&self->links[shard], &request);
    pump(self, shard, now_ms);
}

/* Returns whether every shard of the pull or push is served, reachable, and was not restored since
 * the run began; else fails the run. A restored shard replays updates in order, and one of this run
 * could come before its turn. */
static bool
can_ask(const cadre_worker_values_t *self, cadre_run_t *run)
{
    for (size_t i = 0; i < run->part_count; i++) {
        uint32_t shard = run->parts[i].shard;
        const cadre_shard_entry_t *entry = &self->directory->shards[shard];
        CADRE_UNINITIALIZED char text[CADRE_TEXT_SIZE_MAX];
        if (entry->away || entry->restored > run->restores) {
            snprintf(text, sizeof(text),
                     entry->away ? "ps %u is away" : "ps %u was restored while the closure ran",
                     shard);
            cadre_run_fail_at(run, shard, CADRE_FAILURE_SHARD, CADRE_EUNAVAILABLE, text);
            return false;
        }
        if (self->links[shard].unreachable) {
            snprintf(text, sizeof(text), "ps %u cannot be reached from here", shard);
            cadre_run_fail_at(run, shard, CADRE_FAILURE_SHARD, CADRE_ETIMEOUT, text);
            return false;
        }
    }
    return true;
}

/* Sends requests to all shards that have a part (partition) of the run's pull or push; or to none
 * of them, when one cannot be asked: the run has then failed. */
static void
ask_shards(cadre_worker_values_t *self, cadre_run_t *run, bool push, uint64_t now_ms)
{
    if (!can_ask(self, run)) {
        return;
    }
    cadre_run_touch(run);
    for (uint32_t shard = 0; shard < self->directory->shard_count; shard++) {
        size_t at = 0;
        request_note_t *note = NULL;
        while ((note = next_note(run, shard, push, &at))) {
            cadre_run_await(run);
            ask_shard(self, run, shard, note, now_ms);
        }
    }
}

/* --- the end of an operation --- */

/* Returns the content number of the pulled variable whose parts (one for each partition) begin at
 * `parts`; 0 for rows. */
static uint64_t
content_of(cadre_worker_values_t *self, const cadre_run_part_t *parts)
{
    const cadre_variable_entry_t *variable = parts[0].variable;
    if (parts[0].ids) {
        return 0;
    }
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

/* Returns the pulled values, one for each variable, with their content numbers, which are taken
 * first: the parts end with the pull. */
static cadre_value_t *
end_pull(cadre_worker_values_t *self, cadre_run_t *run, size_t *count)
{
    uint64_t *contents = cadre_calloc(run->item_count, sizeof(*contents));
    for (size_t i = 0; i < run->part_count; i++) {
        if (i == 0 || run->parts[i].item != run->parts[i - 1].item) {
            contents[run->parts[i].item] = content_of(self, &run->parts[i]);
        }
    }
    cadre_value_t *values = cadre_run_end_pull(run, count);
    for (size_t i = 0; i < *count; i++) {
        values[i].content = contents[i];
    }
    free(contents);
    return values;
}

/* Ends the pull or push of a run, and hands its status and values to the shell as an event. */
static void
end_operation(cadre_worker_values_t *self, cadre_run_t *run)
{
    bool push = run->state == CADRE_RUN_PUSHING;
    cadre_worker_event_t event = {.kind = push ? CADRE_WORKER_PUSHED : CADRE_WORKER_VALUES,
                                  .run = run,
                                  .closure = cadre_run_id(run),
                                  .index = run->slot,
                                  .status = run->status};
    if (run->status < 0) {
        snprintf(event.text, sizeof(event.text), "%s", run->text);
    } else if (!push) {
        event.values = end_pull(self, run, &event.value_count);
    }
    cadre_run_end_operation(run);
    cadre_worker_effects_emit(self->effects, &event);
}

/* Notes an answer to a request of the run's pull or push, and ends that with the last answer. */
static void
part_answered(cadre_worker_values_t *self, cadre_run_t *run)
{
    if (cadre_run_answered(run)) {
        end_operation(self, run);
    }
}

/* Ends the pull or push under way, if there is one, without waiting for its shards. The PUSHes that
 * the links no longer have afterwards count as abandoned. */
void
cadre_worker_values_abandon(cadre_worker_values_t *self, cadre_run_t *run)
{
    if (run->state != CADRE_RUN_PULLING && run->state != CADRE_RUN_PUSHING) {
        return;
    }
    for (uint32_t i = 0; i < self->directory->shard_count; i++) {
        self->pushes.abandoned += self->links[i].pushes;
        cadre_shard_link_forget(&self->links[i], cadre_run_id(run));
        self->pushes.abandoned -= self->links[i].pushes;
    }
    cadre_run_cancel_operation(run);
    end_operation(self, run);
}

/* --- pull --- */

/* Returns whether all of a table is wanted, which has no end. */
static bool
names_whole_table(const cadre_wanted_t *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (wanted[i].variable->is_table && !wanted[i].rows) {
            return true;
        }
    }
    return false;
}

/* Asks the shards for variables, or rows of them. The event VALUES follows in any case: at once
 * when the run is cancelled or a shard cannot be asked, so that no answer is awaited (`pending` is
 * 0). */
void
cadre_worker_values_pull(cadre_worker_values_t *self, cadre_run_t *run,
                         const cadre_wanted_t *wanted, size_t count, uint64_t now_ms)
{
    cadre_run_begin_operation(run, CADRE_RUN_PULLING);
    if (cadre_closure_call_is_cancelled(&run->call)) {
        cadre_run_cancel_operation(run);
    } else if (names_whole_table(wanted, count)) {
        cadre_run_fail(run, CADRE_FAILURE_USER, CADRE_EINVALID, "a table is pulled by rows only");
    } else {
        cadre_run_begin_pull(run, wanted, count);
        ask_shards(self, run, false, now_ms);
    }
    if (run->pending == 0) {
        end_operation(self, run);
    }
}

/* Fills the parts (partitions) of a pull from a VALUES message. CADRE_EMALFORMED unless this fits
 * what was asked for. */
static int
take_parts(cadre_worker_values_t *self, const request_note_t *note, const cadre_message_t *message)
{
    const cadre_pull_intake_t intake = {&self->cache, self->rows, self->counters};
    return cadre_pull_intake_take(&intake, note->run, note->parts, note->count, message);
}

/* Returns the run that made the request. */
static cadre_run_t *
run_of(const cadre_link_request_t *request)
{
    return ((const request_note_t *)request->context)->run;
}

/* Takes request `id`, which was answered, out of the shard's list and sends what now may go;
 * returns its run, NULL when no such request awaits an answer. */
static cadre_run_t *
take_request(cadre_worker_values_t *self, uint32_t shard, uint64_t id,
             cadre_link_request_t *request, uint64_t now_ms)
{
    if (!cadre_shard_link_answered(&self->links[shard], id, now_ms, request)) {
        return NULL;
    }
    pump(self, shard, now_ms);
    return run_of(request);
}

/* Notes that the shard was heard; if it was unreachable, tells shell and coordinator. */
static void
hear(cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    if (link->unreachable) {
        cadre_worker_event_t event = {.kind = CADRE_WORKER_REACHABILITY, .index = shard};
        snprintf(event.text, sizeof(event.text), "ps %u is heard again", shard);
        cadre_worker_effects_emit(self->effects, &event);
        cadre_worker_effects_hurry(self->effects);
    }
    cadre_shard_link_heard(link, now_ms);
}

/* Takes the request that `message` answers out of the list and returns its run; NULL for an answer
 * that is late or was never asked for. */
static cadre_run_t *
answered(cadre_worker_values_t *self, uint32_t shard, const cadre_message_t *message,
         cadre_link_request_t *request, uint64_t now_ms)
{
    hear(self, shard, now_ms);
    return take_request(self, shard, message->request, request, now_ms);
}

/* Notes how many bytes the ps lets this worker push without RESERVE; 0 leaves the number as it
 * is. */
static void
take_window(cadre_shard_link_t *link, uint64_t window)
{
    link->window = window ? (size_t)window : link->window;
}

/* Fails the run because the shard refused its request. A fenced request (of another generation
 * than the shard has) is nobody's fault, and the closure runs again; any other refusal counts as
 * the function's fault. After a fenced one the coordinator is asked who serves the shard
 * (`doubted`). */
static void
refused(cadre_worker_values_t *self, cadre_run_t *run, uint32_t shard, uint64_t status,
        const char *text)
{
    char line[CADRE_TEXT_SIZE_MAX + 1];
    snprintf(line, sizeof(line), "ps %u: %s", shard, text);
    int code = -(int)status;
    self->links[shard].doubted = self->links[shard].doubted || code == CADRE_EFENCED;
    cadre_run_fail_at(run, shard, code == CADRE_EFENCED ? CADRE_FAILURE_SHARD : CADRE_FAILURE_USER,
                      code, line);
}

/* Takes VALUES, the answer to a PULL; one to a PUSH is malformed, and fails the run. An answer to a
 * request that was given up is dropped. */
static void
on_values(cadre_worker_values_t *self, uint32_t shard, cadre_message_t *message, uint64_t now_ms)
{
    cadre_link_request_t request;
    take_window(&self->links[shard], message->values.window);
    cadre_run_t *run = answered(self, shard, message, &request, now_ms);
    if (!run) {
        return;
    }
    const request_note_t *note = request.context;
    if (note->push || run->state != CADRE_RUN_PULLING) {
        self->pushes.abandoned += note->push; /* no answer of the PUSH comes any more */
        cadre_worker_counters_note(self->counters, CADRE_WORKER_COUNTER_malformed);
        cadre_run_fail(run, CADRE_FAILURE_USER, CADRE_EMALFORMED, "VALUES in answer to PUSH");
    } else if (message->values.status != 0) {
        refused(self, run, shard, message->values.status, message->values.text);
    } else if (take_parts(self, note, message) < 0) {
        cadre_worker_counters_note(self->counters, CADRE_WORKER_COUNTER_malformed);
        cadre_run_fail(run, CADRE_FAILURE_USER, CADRE_EMALFORMED,
                       "VALUES do not fit the partitions that were asked for");
    }
    cadre_link_request_fini(&request);
    part_answered(self, run);
}

/* --- push --- */

/* Pushes the gradients of one step to the shards. The event PUSHED follows in any case: at once
 * when nothing is sent, because the run is cancelled, has no step left, gave gradients that do not
 * fit, or a shard cannot be asked. */
void
cadre_worker_values_push(cadre_worker_values_t *self, cadre_run_t *run,
                         const cadre_gradient_t *gradients, size_t count, uint64_t now_ms)
{
    cadre_run_begin_operation(run, CADRE_RUN_PUSHING);
    int status = 0;
    if (cadre_closure_call_is_cancelled(&run->call)) {
        cadre_run_cancel_operation(run);
    } else if (run->step >= run->call.message.closure.steps) {
        cadre_run_fail(run, CADRE_FAILURE_USER, CADRE_EFULL,
                       run->call.builds ? "a function that builds a resource pushes nothing"
                                        : "more steps than the closure was scheduled with");
    } else if ((status = cadre_run_begin_push(run, gradients, count)) < 0) {
        cadre_run_fail(run, CADRE_FAILURE_USER, status, cadre_error_text());
    } else {
        ask_shards(self, run, true, now_ms);
    }
    if (run->pending == 0) {
        end_operation(self, run);
    }
}

/* Returns how many updates were applied to a part after its values were pulled and before the
 * update that made it `version`. */
static uint64_t
staleness_of(const cadre_run_part_t *part, uint64_t version)
{
    return version > part->version ? version - part->version - 1 : 0;
}

/* Notes how stale an applied update is, if that is recorded per variable: of each variable the
 * largest of its parts, which stand beside each other in `note`, without those of a table of which
 * the update has no key: nothing of them was read. An answer without a version for
 * each part only gives the staleness of the whole update. */
static void
observe(cadre_worker_values_t *self, const cadre_run_t *run, const request_note_t *note,
        const cadre_applied_message_t *applied)
{
    if (!self->options.observes) {
        return;
    }
    if (applied->versions.count != note->count) {
        cadre_staleness_note_other(&self->staleness, applied->staleness);
        return;
    }
    for (size_t i = 0; i < note->count;) {
        const cadre_variable_entry_t *variable = run->parts[note->parts[i]].variable;
        uint64_t stalest = 0;
        bool was_read = false;
        for (; i < note->count && run->parts[note->parts[i]].variable == variable; i++) {
            const cadre_run_part_t *part = &run->parts[note->parts[i]];
            uint64_t versions = staleness_of(part, applied->versions.items[i]);
            if (!cadre_run_part_is_keyless(part)) {
                was_read = true;
                stalest = versions > stalest ? versions : stalest;
            }
        }
        if (was_read) {
            cadre_staleness_note(&self->staleness, variable->name, stalest);
        }
    }
}

/* Counts an update that was applied before, by an earlier attempt or request: it is in, which is a
 * success. */
static void
count_duplicate(cadre_worker_values_t *self, cadre_run_t *run)
{
    cadre_run_note_duplicate(run);
    cadre_worker_counters_note(self->counters, CADRE_WORKER_COUNTER_duplicate);
}

/* Takes APPLIED, the answer to a PUSH: applied, applied before (a duplicate, a success), or
 * refused. An answer to a request that was given up is dropped. */
static void
on_applied(cadre_worker_values_t *self, uint32_t shard, const cadre_message_t *message,
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
        cadre_run_note_applied(run, applied->staleness);
        cadre_worker_counters_note(self->counters, CADRE_WORKER_COUNTER_applied);
        const request_note_t *note = request.context;
        observe(self, run, note, applied);
    } else if (applied->status == (uint64_t)-CADRE_EDUPLICATE) {
        count_duplicate(self, run);
    } else {
        cadre_worker_counters_note(self->counters, CADRE_WORKER_COUNTER_refused);
        refused(self, run, shard, applied->status, applied->text);
    }
    cadre_link_request_fini(&request);
    part_answered(self, run);
}

/* --- probes, grants, and giving requests up --- */

/* Sends a PROBE if one is due: it asks what has become of the requests that the shard has not
 * answered. It has a request id of its own, by which PROBED names it. */
static void
probe(cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_probe_t probes[CADRE_PROBE_REQUESTS_MAX];
    const cadre_shard_entry_t *entry = &self->directory->shards[shard];
    uint64_t number = self->request_last + 1;
    size_t count = 0;
    if (!cadre_shard_link_probe(&self->links[shard], now_ms, number, probes, &count)) {
        return;
    }
    self->request_last = number;
    cadre_message_t message = cadre_worker_effects_message(self->effects, CADRE_MESSAGE_PROBE);
    message.request = number;
    message.probe = (cadre_probe_message_t){.generation = entry->generation,
                                            .requests = cadre_probe_list(probes, count)};
    cadre_outbox_send(&self->effects->outbox, &entry->task, &message);
}

/* Ends a PUSH that PROBED says is applied: only its answer was lost. */
static void
end_applied(cadre_worker_values_t *self, uint32_t shard, uint64_t id, uint64_t now_ms)
{
    cadre_link_request_t request;
    cadre_run_t *run = take_request(self, shard, id, &request, now_ms);
    if (run) {
        count_duplicate(self, run);
        cadre_link_request_fini(&request);
        part_answered(self, run);
    }
}

/* Takes PROBED: ends the PUSHes that are applied, and sends again the requests that it proves
 * lost. */
static void
on_probed(cadre_worker_values_t *self, uint32_t shard, const cadre_message_t *message,
          uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    const cadre_probe_answer_list_t answers = cadre_probe_answer_list_view(&message->probed.states);
    hear(self, shard, now_ms);
    for (size_t i = 0; i < answers.count; i++) {
        const cadre_probe_answer_t *answer = &answers.items[i];
        if (answer->state == CADRE_PROBED_APPLIED) {
            end_applied(self, shard, answer->request, now_ms);
        } else if (self->in_touch) {
            cadre_shard_link_lost(link, answer->request, message->request,
                                  answer->state == CADRE_PROBED_QUEUED, &self->effects->outbox);
        }
    }
}

/* Takes GRANT: sends the PUSH for which the ps has made room. Gives the room back, since others
 * wait for it, if nobody wants that PUSH any more or nothing may be sent now; in the second case a
 * PROBE finds out later that RESERVE has to be sent again. */
static void
on_grant(cadre_worker_values_t *self, uint32_t shard, const cadre_message_t *message,
         uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    const cadre_shard_entry_t *entry = &self->directory->shards[shard];
    cadre_shard_link_heard(link, now_ms);
    take_window(link, message->grant.window);
    if (!link->open) {
        return; /* no ps serves the shard by now; a ps repeats GRANT until it is answered */
    }
    bool goes =
        self->in_touch && cadre_shard_link_granted(link, message->request, &self->effects->outbox);
    if (!goes) {
        cadre_message_t release =
            cadre_worker_effects_message(self->effects, CADRE_MESSAGE_RESERVE);
        release.request = message->request;
        release.reserve.generation = entry->generation;
        cadre_outbox_send(&self->effects->outbox, &entry->task, &release);
    }
}

/* Fails the runs of all requests to a shard with this status and text, and drops the requests. */
static void
fail_requests(cadre_worker_values_t *self, uint32_t shard, int status, const char *text,
              uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    while (link->first) {
        cadre_link_request_t request;
        cadre_shard_link_answered(link, link->first->request, now_ms, &request);
        cadre_run_t *run = run_of(&request);
        self->pushes.abandoned += ((const request_note_t *)request.context)->push;
        cadre_link_request_fini(&request);
        cadre_run_fail_at(run, shard, CADRE_FAILURE_SHARD, status, text);
        part_answered(self, run);
    }
}

/* Gives up the requests to an unreachable shard, so that other workers run their closures. Such a
 * PUSH may have arrived all the same: the shard drops that of the next attempt as a duplicate, by
 * its update id. */
static void
give_up_shard(cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    char text[CADRE_TEXT_SIZE_MAX];
    snprintf(text, sizeof(text), "ps %u has said nothing to worker %u for %" PRIu64 " ms", shard,
             cadre_session_task(self->effects->session)->index,
             now_ms - cadre_shard_link_owed_ms(link));
    cadre_shard_link_give_up(link, now_ms);
    cadre_worker_event_t event = {
        .kind = CADRE_WORKER_REACHABILITY, .index = shard, .status = CADRE_ETIMEOUT};
    snprintf(event.text, sizeof(event.text), "%s", text);
    cadre_worker_effects_emit(self->effects, &event);
    cadre_worker_effects_hurry(self->effects);
    fail_requests(self, shard, CADRE_ETIMEOUT, text, now_ms);
}

/* Runs the timers of one shard's link: gives the shard up as unreachable; replaces a half-open
 * connection, and sends all requests again; sends what may go, and a PROBE. Returns when it is due
 * next. */
static uint64_t
tick_link(cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    uint64_t timeout_ms = self->options.shard_timeout_ms;
    if (cadre_shard_link_is_over(link, now_ms, timeout_ms)) {
        give_up_shard(self, shard, now_ms);
    }
    if (cadre_shard_link_is_mute(link, now_ms)) {
        link->mutes++;
        cadre_worker_effects_emit(self->effects,
                                  &(cadre_worker_event_t){.kind = CADRE_WORKER_SHARD_MOVED,
                                                          .index = shard,
                                                          .status = CADRE_ETIMEOUT});
        cadre_shard_link_repeat(link, now_ms, &self->effects->outbox);
    }
    pump(self, shard, now_ms);
    probe(self, shard, now_ms);
    return cadre_shard_link_due_ms(link, timeout_ms);
}

/* Runs the timers of all links; returns when the next is due. */
uint64_t
cadre_worker_values_tick(cadre_worker_values_t *self, uint64_t now_ms)
{
    uint64_t due_ms = UINT64_MAX;
    for (uint32_t i = 0; i < self->directory->shard_count; i++) {
        uint64_t link_due_ms = tick_link(self, i, now_ms);
        due_ms = link_due_ms < due_ms ? link_due_ms : due_ms;
    }
    return due_ms;
}

/* --- a shard that moved --- */

/* Notes that another ps serves the shard now, or none: fails the requests to it, and has the shell
 * connect to the new one. Window and silence begin from the start. */
void
cadre_worker_values_shard_moved(cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms)
{
    cadre_shard_link_t *link = &self->links[shard];
    bool away = self->directory->shards[shard].away;
    char text[CADRE_TEXT_SIZE_MAX];
    snprintf(text, sizeof(text), away ? "ps %u is away" : "ps %u was replaced", shard);
    fail_requests(self, shard, CADRE_EUNAVAILABLE, text, now_ms);
    if (link->unreachable) {
        /* Nobody knows yet whether the ps that serves the shard now can be reached. */
        link->unreachable = false;
        cadre_worker_effects_hurry(self->effects);
    }
    link->open = !away;
    link->connected_ms = now_ms;
    link->mutes = 0;
    link->window = self->options.window;
    cadre_worker_effects_emit(
        self->effects, &(cadre_worker_event_t){.kind = CADRE_WORKER_SHARD_MOVED, .index = shard});
}

void
cadre_worker_values_told(cadre_worker_values_t *self, uint32_t shard)
{
    self->links[shard].doubted = false;
}

/* --- messages of shards --- */

/* Acts on a message of a shard; returns false for a type that no shard may send. */
bool
cadre_worker_values_receive(cadre_worker_values_t *self, uint32_t shard, cadre_message_t *message,
                            uint64_t now_ms)
{
    if (message->type == CADRE_MESSAGE_VALUES) {
        on_values(self, shard, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_APPLIED) {
        on_applied(self, shard, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_PROBED) {
        on_probed(self, shard, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_GRANT) {
        on_grant(self, shard, message, now_ms);
    } else {
        return false;
    }
    return true;
}
