#include "ps/core/shard.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/uninitialized.h"
#include "common/wire/codec.h"
#include "common/wire/record_list.h"
#include "ps/core/intake.h"
#include "ps/core/pull_answer.h"
#include "ps/core/row_gradient.h"
#include "ps/core/shard_loads.h"
#include "ps/core/shard_pull.h"
#include "ps/core/shard_rows.h"
#include "ps/core/shard_updates.h"

struct cadre_shard {
    cadre_shard_options_t options;
    uint32_t index;
    uint64_t epoch;       /* 0: no session */
    uint64_t coordinator; /* incarnation of the session's coordinator; any other is refused */
    uint64_t generation;  /* 0: no RESTORE has come, or the last one failed or is not done */
    uint64_t restored;    /* generation of the last RESTORE, failed or not; one with a lower number
                             comes late */
    uint64_t now_ms;      /* the time at the last cadre_shard_tick */
    cadre_shard_parts_t *parts;
    cadre_shard_updates_t *updates;
    cadre_shard_cut_t *cut;
    cadre_shard_loads_t *loads;
    cadre_intake_t *intake;
    cadre_ps_counters_t counters;
};

/* A message that asks something of the shard, with what its handlers need: who sent it on which
 * plane (the answer goes there), and where to put effects. */
typedef struct {
    cadre_plane_t plane;
    const cadre_task_t *from;
    cadre_message_t *message;
    cadre_shard_effects_t *effects;
} question_t;

/* Makes a shard with its objects: parts, updates, cut, loads and intake. It serves nobody yet. */
cadre_shard_t *
cadre_shard_new(const cadre_shard_options_t *options)
{
    cadre_shard_t *self = cadre_calloc(1, sizeof(*self));
    const cadre_shard_parts_options_t parts = {.size_bytes_max = options->size_bytes_max,
                                               .lanes = options->table_lanes,
                                               .huge_source = options->huge_source,
                                               .on_step = options->on_step,
                                               .step_context = options->step_context};
    self->options = *options;
    self->parts = cadre_shard_parts_new(&parts);
    self->updates =
        cadre_shard_updates_new(&options->lanes, &options->table_lanes, options->step_bytes);
    self->cut = cadre_shard_cut_new();
    self->loads = cadre_shard_loads_new();
    self->intake = cadre_intake_new(options->intake_bytes ? options->intake_bytes : UINT64_MAX,
                                    options->window_min);
    return self;
}

/* Drops everything but the session and the count of malformed messages, so that the shard is empty
 * and has no generation; every update below `base` is settled. */
static void
begin_anew(cadre_shard_t *self, uint64_t base, cadre_shard_effects_t *effects)
{
    cadre_shard_loads_forget(self->loads, self->parts, effects);
    cadre_shard_parts_clear(self->parts);
    cadre_shard_updates_clear(self->updates, base);
    cadre_shard_cut_clear(self->cut);
    cadre_intake_clear(self->intake);
    cadre_ps_counters_clear(&self->counters);
    self->generation = 0;
}

/* Frees the shard; loads that are under way are given up first. */
void
cadre_shard_destroy(cadre_shard_t **self_p)
{
    cadre_shard_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_auto(cadre_shard_effects_fini) cadre_shard_effects_t none = {.snapshot = NULL};
    cadre_shard_loads_forget(self->loads, self->parts, &none);
    cadre_shard_loads_destroy(&self->loads);
    cadre_shard_cut_destroy(&self->cut);
    cadre_shard_updates_destroy(&self->updates);
    cadre_shard_parts_destroy(&self->parts);
    cadre_intake_destroy(&self->intake);
    free(self);
}

/* Begins a session from nothing, under the index, epoch and coordinator that WELCOME named. */
void
cadre_shard_begin_session(cadre_shard_t *self, uint32_t index, uint64_t epoch, uint64_t coordinator,
                          cadre_shard_effects_t *effects)
{
    begin_anew(self, 0, effects);
    self->restored = 0;
    self->index = index;
    self->epoch = epoch;
    self->coordinator = coordinator;
}

void
cadre_shard_set_size_max(cadre_shard_t *self, uint64_t size_bytes_max)
{
    cadre_shard_parts_set_size_max(self->parts, size_bytes_max);
}

void
cadre_shard_malformed(cadre_shard_t *self)
{
    cadre_ps_counters_note(&self->counters, CADRE_PS_COUNTER_malformed);
}

/* --- figures for heartbeats, metrics and tests --- */

const uint64_t *
cadre_shard_counters(const cadre_shard_t *self)
{
    return self->counters.items;
}

uint64_t
cadre_shard_generation(const cadre_shard_t *self)
{
    return self->generation;
}

size_t
cadre_shard_partition_count(const cadre_shard_t *self)
{
    return cadre_shard_parts_count(self->parts);
}

uint64_t
cadre_shard_window_base(const cadre_shard_t *self)
{
    return cadre_shard_updates_base(self->updates);
}

/* Returns what the shard holds now, for metrics. */
cadre_shard_figures_t
cadre_shard_figures(const cadre_shard_t *self)
{
    const cadre_admission_t *admission = self->options.admission;
    return (cadre_shard_figures_t){.partitions = cadre_shard_parts_count(self->parts),
                                   .size_bytes = cadre_shard_parts_size_bytes(self->parts),
                                   .tables = cadre_shard_parts_figures(self->parts),
                                   .told = cadre_shard_parts_told(self->parts),
                                   .granted_bytes = cadre_intake_granted_bytes(self->intake),
                                   .collected_bytes = cadre_intake_collected_bytes(self->intake),
                                   .held_bytes = cadre_shard_updates_held_bytes(self->updates),
                                   .held_bytes_max = self->options.step_bytes,
                                   .pulls_waiting =
                                       admission ? cadre_admission_count(admission) : 0};
}

const cadre_partition_t *
cadre_shard_partition(const cadre_shard_t *self, uint64_t variable, uint64_t partition)
{
    const cadre_shard_part_t *part = NULL;
    int status = cadre_shard_parts_find(self->parts, variable, partition, &part);
    return status == 0 ? part->partition : NULL;
}

const cadre_table_t *
cadre_shard_table(const cadre_shard_t *self, uint64_t variable, uint64_t partition)
{
    const cadre_shard_part_t *part = NULL;
    int status = cadre_shard_parts_find(self->parts, variable, partition, &part);
    return status == 0 ? part->table : NULL;
}

/* --- fences --- */

/* Fails with CADRE_EFENCED unless the shard has a generation and it is this one. */
static int
check_generation(const cadre_shard_t *self, uint64_t generation)
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

/* Fails with CADRE_EFENCED unless the sender belongs to this session and knows the present
 * generation of the shard. Epochs are compared too because another coordinator counts generations
 * from 1 again. */
static int
check_fence(const cadre_shard_t *self, const cadre_message_t *message, uint64_t generation)
{
    if (self->epoch == 0 || message->epoch != self->epoch) {
        return cadre_fail(CADRE_EFENCED, "the session has epoch %" PRIu64 ", not %" PRIu64,
                          self->epoch, message->epoch);
    }
    return check_generation(self, generation);
}

/* --- answers --- */

/* Returns an empty message of this type, with the sender's fields filled in. */
static cadre_message_t
message_of(const cadre_shard_t *self, cadre_message_type_t type, uint64_t request)
{
    return (cadre_message_t){.type = type,
                             .request = request,
                             .incarnation = self->options.incarnation,
                             .epoch = self->epoch};
}

/* Returns an empty answer to `question`, with the same request id. */
static cadre_message_t
answer_of(const cadre_shard_t *self, const question_t *question, cadre_message_type_t type)
{
    return message_of(self, type, question->message->request);
}

/* Sends an answer on the question's plane; drops it when the asker awaits none (request id 0). */
static void
send(const question_t *question, cadre_message_t *answer)
{
    if (answer->request != 0) {
        cadre_outbox_send_on(&question->effects->outbox, question->plane, question->from, answer);
    }
    cadre_message_fini(answer);
}

/* Returns the content of a REPLY: `status`, with this thread's error text if that is a failure. */
static cadre_reply_message_t
reply_of(const cadre_shard_t *self, int status)
{
    return (cadre_reply_message_t){.status = (uint64_t)-status,
                                   .text = status < 0 ? cadre_error_text() : "",
                                   .counters = {self->counters.items, CADRE_PS_COUNTER_COUNT}};
}

/* Answers a question with a REPLY. */
static void
reply(const cadre_shard_t *self, const question_t *question, int status)
{
    cadre_message_t answer = answer_of(self, question, CADRE_MESSAGE_REPLY);
    answer.reply = reply_of(self, status);
    send(question, &answer);
}

/* Answers a RESTORE or CREATE whose load is done, on the control plane. */
static void
reply_later(const cadre_shard_t *self, const cadre_asker_t *asker, int status,
            cadre_outbox_t *outbox)
{
    if (asker->request == 0) {
        return;
    }
    cadre_message_t answer = message_of(self, CADRE_MESSAGE_REPLY, asker->request);
    answer.reply = reply_of(self, status);
    cadre_outbox_send_on(outbox, CADRE_PLANE_CONTROL, &asker->from, &answer);
}

/* --- RESTORE, and loads that come back --- */

/* Returns whom to answer, and under which request id, once a load is done. */
static cadre_asker_t
asker_of(const question_t *question)
{
    return (cadre_asker_t){*question->from, question->message->request};
}

/* Empties the shard and begins the generation that RESTORE names, at a checkpoint or empty. If the
 * checkpoint cannot be loaded the shard has no generation: it serves nobody until the same RESTORE,
 * retransmitted, or one of a higher generation succeeds. */
static void
restore(cadre_shard_t *self, const question_t *question)
{
    const cadre_restore_message_t *restore = &question->message->restore;
    const cadre_asker_t asker = asker_of(question);
    /* A repeated RESTORE whose checkpoint is being opened: the answer goes to who asked last. */
    if (cadre_shard_loads_is_opening(self->loads) && restore->generation == self->restored) {
        cadre_shard_loads_open_again(self->loads, &asker);
        return;
    }
    if (restore->generation == 0) {
        reply(self, question, cadre_fail(CADRE_EINVALID, "generations begin at 1"));
        return;
    }
    if (restore->generation < self->restored) {
        reply(self, question,
              cadre_fail(CADRE_EFENCED,
                         "a restore to generation %" PRIu64 " came after one to %" PRIu64,
                         restore->generation, self->restored));
        return;
    }
    if (restore->generation == self->generation) {
        reply(self, question, 0); /* retransmitted */
        return;
    }

    begin_anew(self, restore->cut, question->effects);
    /* A SNAPSHOT that comes late, of a checkpoint that has ended, must open no cut. */
    cadre_shard_cut_end(self->cut, restore->ended);
    self->restored = restore->generation;
    if (restore->path[0]) {
        cadre_shard_loads_open(self->loads, restore->path, self->index, &asker, question->effects);
        return;
    }
    self->generation = restore->generation;
    reply(self, question, 0);
}

/* Acts on a load that came back. A checkpoint was opened: the shard has its generation from now on.
 * A part was filled: it is served from now on, or freed if that failed. Either way the RESTORE or
 * CREATE that waited is answered. */
void
cadre_shard_loaded(cadre_shard_t *self, cadre_checkpoint_load_t **load_p, cadre_outbox_t *outbox)
{
    cadre_load_end_t end = cadre_shard_loads_end(self->loads, *load_p);
    switch (end.kind) {
    case CADRE_LOAD_STALE:
        break;
    case CADRE_LOAD_CHECKPOINT:
        if (end.status == 0) {
            /* Counters go on from those in the checkpoint. */
            cadre_ps_counters_restore(&self->counters, &(*load_p)->state);
            self->generation = self->restored;
        }
        reply_later(self, &end.asker, end.status, outbox);
        break;
    case CADRE_LOAD_PART:
        if (end.status == 0) {
            end.status = cadre_shard_parts_add_loaded(self->parts, &end.part,
                                                      cadre_shard_cut_checkpoint(self->cut));
        } else {
            cadre_shard_parts_give_up(self->parts, &end.part);
        }
        reply_later(self, &end.asker, end.status, outbox);
        break;
    }
    cadre_checkpoint_load_destroy(load_p);
}

/* --- partitions --- */

/* Makes a part that CREATE asks for. Its values are loaded if a checkpoint is open, unless CREATE
 * says that the variable is fresh: created after that checkpoint, which may hold an older variable
 * of the name. `pending`: CREATE is answered when the load is done. */
static int
make_part(cadre_shard_t *self, const question_t *question, const cadre_partition_spec_t *spec,
          bool *pending)
{
    const cadre_create_message_t *create = &question->message->create;
    const bool is_loaded = cadre_shard_loads_is_open(self->loads) && create->fresh == 0;
    cadre_shard_part_t *part = NULL;
    int status = cadre_shard_parts_make(self->parts, create->name, spec, is_loaded, &part);
    if (status < 0) {
        return status;
    }
    *pending = is_loaded;
    if (is_loaded) {
        const cadre_asker_t asker = asker_of(question);
        cadre_shard_loads_fill(self->loads, &part, cadre_shard_parts_room(self->parts), &asker,
                               question->effects);
    } else {
        cadre_shard_parts_add(self->parts, &part, cadre_shard_cut_checkpoint(self->cut));
    }
    return 0;
}

/* Carries out a CREATE: makes the part, or finds that it is there or on its way. `pending` becomes
 * true when the answer has to wait for a load. */
static int
create_part(cadre_shard_t *self, const question_t *question, bool *pending)
{
    const cadre_create_message_t *create = &question->message->create;
    cadre_partition_spec_t spec = {.rank = 0};
    int status = check_generation(self, create->generation);
    if (status < 0) {
        return status;
    }
    status = cadre_partition_spec_decode(&spec, create);
    if (status < 0) {
        return status;
    }

    /* A CREATE may be retransmitted, or change the learning rate: a part that is here, or is being
     * loaded, must be the one that it asks for. */
    status = cadre_shard_parts_create_again(self->parts, create->name, &spec);
    if (status != CADRE_ENOTFOUND) {
        return status;
    }
    cadre_shard_part_t *known = cadre_shard_loads_find(self->loads, spec.variable, spec.partition);
    if (!known) {
        return make_part(self, question, &spec, pending);
    }

    status = cadre_shard_part_create_again(known, create->name, &spec);
    if (status < 0) {
        return status;
    }

    const cadre_asker_t asker = asker_of(question);
    *pending = true;
    cadre_shard_loads_fill_again(self->loads, spec.variable, spec.partition, &asker);
    return 0;
}

/* Carries out a CREATE and answers it, unless the answer waits for a load (cadre_shard_loaded). */
static void
create(cadre_shard_t *self, const question_t *question)
{
    bool pending = false;
    int status = create_part(self, question, &pending);
    if (!pending) {
        reply(self, question, status);
    }
}

/* Notes that a variable was dropped, and which checkpoint is the last that holds it; its values
 * stay while closures may still name it. */
static int
retire(cadre_shard_t *self, const cadre_retire_message_t *retire)
{
    int status = check_generation(self, retire->generation);
    if (status < 0) {
        return status;
    }

    cadre_shard_parts_retire(self->parts, retire->variable, retire->checkpoint);
    return 0;
}

/* Drops a variable: gives up loads of its parts and answers the CREATEs that wait for these, frees
 * the images that an open cut holds, then the parts. */
static int
drop(cadre_shard_t *self, const cadre_drop_message_t *drop, cadre_outbox_t *outbox)
{
    int status = check_generation(self, drop->generation);
    if (status < 0) {
        return status;
    }
    cadre_load_end_t end;
    while (cadre_shard_loads_drop(self->loads, drop->variable, &end)) {
        reply_later(self, &end.asker, end.status, outbox);
        cadre_shard_parts_give_up(self->parts, &end.part);
    }
    const cadre_shard_part_t *part = cadre_shard_parts_of(self->parts, drop->variable);
    for (; part; part = part->next) {
        cadre_shard_cut_drop(self->cut, part);
    }
    cadre_shard_parts_drop(self->parts, drop->variable);
    return 0;
}

/* --- checkpoints --- */

/* Settles the updates below the base that the coordinator names: their closures have all ended, so
 * such an update can only be a repetition. */
static int
settle(cadre_shard_t *self, const cadre_settle_message_t *settle)
{
    int status = check_generation(self, settle->generation);
    if (status < 0) {
        return status;
    }

    cadre_shard_updates_settle(self->updates, settle->base);
    return 0;
}

/* Opens the cut that SNAPSHOT names, unless a PUSH has opened it before, and answers. */
static void
snapshot(cadre_shard_t *self, const question_t *question)
{
    const cadre_snapshot_message_t *message = &question->message->snapshot;
    int status = check_generation(self, message->generation);
    if (status == 0) {
        status = cadre_shard_cut_confirm(self->cut, message, self->parts, &self->counters);
    }
    cadre_message_t answer = answer_of(self, question, CADRE_MESSAGE_SNAPSHOT_TAKEN);
    answer.snapshot_taken = (cadre_snapshot_taken_message_t){
        .checkpoint = message->checkpoint,
        .status = (uint64_t)-status,
        .text = status < 0 ? cadre_error_text() : "",
    };
    send(question, &answer);
}

/* Returns a number that no other ps has, nor this one in another session or generation. */
static uint64_t
writer_of(const cadre_shard_t *self)
{
    const uint64_t here = cadre_table_mix(self->options.incarnation) ^ self->epoch;
    return cadre_table_mix(here) ^ self->generation;
}

/* Closes the cut: hands its snapshot out to be written, and settles the updates below it, whose
 * closures have all ended. A repeated CLOSE_CUT makes no snapshot. */
static int
close_cut(cadre_shard_t *self, const cadre_close_cut_message_t *message,
          cadre_shard_effects_t *effects)
{
    cadre_shard_snapshot_t *snapshot = NULL;
    int status = check_generation(self, message->generation);
    if (status < 0) {
        return status;
    }
    status = cadre_shard_cut_close(self->cut, message, writer_of(self), self->parts, &snapshot);
    if (snapshot) {
        snapshot->epoch = self->epoch;
        snapshot->index = self->index;
        cadre_shard_effects_write(effects, &snapshot);
        cadre_shard_updates_settle(self->updates, message->cut);
    }
    return status;
}

/* --- steps --- */

/* Returns what updates and assignments are applied to and counted in. */
static cadre_shard_target_t
target_of(cadre_shard_t *self)
{
    return (cadre_shard_target_t){self->parts, self->cut, &self->counters};
}

/* Ends a synchronous step: the updates that were held for it are applied as one. */
static int
end_step(cadre_shard_t *self, const cadre_end_step_message_t *message)
{
    const cadre_shard_target_t target = target_of(self);
    int status = check_generation(self, message->generation);
    if (status < 0) {
        return status;
    }

    return cadre_shard_updates_end_step(self->updates, &target, message);
}

/* Finds the table whose counters a COUNT asks for; NULL where it asks for those of the ps. */
static int
count_part(const cadre_shard_t *self, const cadre_count_message_t *message,
           const cadre_table_t **out)
{
    if (message->variable == 0) {
        return 0;
    }
    const cadre_shard_part_t *part = cadre_shard_parts_of(self->parts, message->variable);
    if (!part || !part->table) {
        return cadre_fail(CADRE_ENOTFOUND, "it has no table %" PRIu64, message->variable);
    }
    *out = part->table;
    return 0;
}

/* Tells the counters of the ps, or of a table. */
static void
count(const cadre_shard_t *self, const question_t *question)
{
    const cadre_table_t *table = NULL;
    int status = count_part(self, &question->message->count, &table);
    if (!table) {
        reply(self, question, status);
        return;
    }

    const cadre_table_figures_t figures = cadre_table_figures(table);
    uint64_t counters[CADRE_TABLE_COUNTER_COUNT];
    cadre_tables_told_counters(&figures, counters);
    cadre_message_t answer = answer_of(self, question, CADRE_MESSAGE_REPLY);
    answer.reply =
        (cadre_reply_message_t){.text = "", .counters = {counters, CADRE_TABLE_COUNTER_COUNT}};
    send(question, &answer);
}

/* --- pull --- */

/* Returns what the asker gets: a slot, the average, or values, which the coordinator gets in the
 * variable's own dtype, since it may assign them again; workers get the wire dtype. */
static cadre_pulled_t
what_is_pulled(const question_t *question)
{
    const cadre_pull_message_t *pull = &question->message->pull;
    if (pull->slot > 0) {
        return (cadre_pulled_t){CADRE_PULLED_SLOT, (size_t)pull->slot - 1};
    }
    if (pull->average != 0) {
        return (cadre_pulled_t){.kind = CADRE_PULLED_AVERAGE};
    }
    const bool is_exact = question->from->role == CADRE_ROLE_COORDINATOR;
    return (cadre_pulled_t){.kind = is_exact ? CADRE_PULLED_EXACT : CADRE_PULLED_WIRE};
}

/* Returns how many bytes the asker may push without RESERVE; 0 for the coordinator, which pushes
 * nothing. */
static size_t
window_of(const cadre_shard_t *self, const question_t *question)
{
    return question->from->role == CADRE_ROLE_WORKER ? cadre_intake_window(self->intake) : 0;
}

/* Answers a PULL: with the values that the asker does not have yet, or with why there are none. */
static void
pull(cadre_shard_t *self, const question_t *question)
{
    const cadre_message_t *message = question->message;
    CADRE_UNINITIALIZED cadre_pull_answer_t told;
    cadre_pull_answer_init(&told);
    cadre_message_t answer = answer_of(self, question, CADRE_MESSAGE_VALUES);
    int status = check_fence(self, message, message->pull.generation);
    if (status == 0) {
        status = cadre_pull_answer_take(&told, self->parts, message, what_is_pulled(question),
                                        &self->counters, &answer);
    }
    answer.values =
        (cadre_values_message_t){.status = (uint64_t)-status,
                                 .text = status < 0 ? cadre_error_text() : "",
                                 .generation = self->generation,
                                 .partitions = cadre_pulled_part_list(told.pulled, told.count),
                                 .window = window_of(self, question),
                                 .steps = {told.steps, told.step_count},
                                 .unchanged = {told.unchanged, told.unchanged_words},
                                 .absent = {told.absent, told.absent_words}};
    cadre_ps_counters_note(&self->counters, CADRE_PS_COUNTER_pulls);
    send(question, &answer);
}

/* Returns how many bytes of values the answer to a message has; 0 unless that is a PULL. */
size_t
cadre_shard_answer_size(const cadre_shard_t *self, const cadre_message_t *message)
{
    if (message->type != CADRE_MESSAGE_PULL) {
        return 0;
    }
    return message->pull.rows.count > 0
               ? cadre_shard_rows_size_bytes(self->parts, message)
               : cadre_shard_pull_size_bytes(self->parts, &message->pull.partitions);
}

/* --- push --- */

/* Returns the present versions of the partitions that a PUSH names, for its answer (also that of a
 * duplicate); an empty list when one of them is unknown or one answer does not take all. */
static cadre_u64s_t
versions_of(cadre_shard_t *self, const cadre_push_message_t *push,
            uint64_t versions[CADRE_PARTITIONS_PER_UPDATE_MAX])
{
    cadre_named_parts_t named = {.count = 0};
    const size_t count = cadre_part_list_view(&push->partitions).count +
                         cadre_pushed_rows_list_view(&push->rows).count;
    if (count > CADRE_PARTITIONS_PER_UPDATE_MAX ||
        cadre_shard_parts_find_pushed(self->parts, push, &named) < 0) {
        return (cadre_u64s_t){NULL, 0};
    }
    for (size_t i = 0; i < named.count; i++) {
        versions[i] = cadre_shard_part_version(named.items[i].part);
    }
    return (cadre_u64s_t){versions, named.count};
}

/* Answers an update with its status, and counts it if it was a duplicate or refused; an update that
 * is applied was counted then. */
static void
answer_update(cadre_shard_t *self, const question_t *question, uint64_t update, int status,
              uint64_t staleness)
{
    CADRE_UNINITIALIZED uint64_t versions[CADRE_PARTITIONS_PER_UPDATE_MAX];
    cadre_message_t answer = answer_of(self, question, CADRE_MESSAGE_APPLIED);
    answer.applied = (cadre_applied_message_t){.update = update,
                                               .status = (uint64_t)-status,
                                               .text = "",
                                               .generation = self->generation,
                                               .staleness = staleness,
                                               .window = window_of(self, question)};
    bool is_in = status == 0 || status == CADRE_EDUPLICATE;
    if (is_in && question->message->type == CADRE_MESSAGE_PUSH) {
        answer.applied.versions = versions_of(self, &question->message->push, versions);
    }
    if (status == CADRE_EDUPLICATE) {
        cadre_ps_counters_note(&self->counters, CADRE_PS_COUNTER_duplicate);
    } else if (status < 0) {
        answer.applied.text = cadre_error_text();
        cadre_ps_counters_note(&self->counters, CADRE_PS_COUNTER_refused);
    }
    send(question, &answer);
}

/* Checks fence and update id, all that is known of an update before its values have come. */
static int
check_update(const cadre_shard_t *self, const cadre_message_t *message, uint64_t update,
             uint64_t generation)
{
    int status = check_fence(self, message, generation);
    if (status < 0) {
        return status;
    }

    return cadre_shard_updates_check(self->updates, update);
}

/* Collects a part of an update; returns true when all are there: the question's message is then the
 * whole update. Parts of an update that is a duplicate, or is refused, are dropped, and the first
 * of them is answered. */
static bool
collect(cadre_shard_t *self, const question_t *question, uint64_t **numbers)
{
    cadre_message_t *message = question->message;
    const cadre_push_message_t *push = &message->push;
    int status = check_update(self, message, push->update, push->generation);
    if (status < 0) {
        cadre_intake_end(self->intake, question->from->incarnation, message->request);
        if (push->part == 0) {
            answer_update(self, question, push->update, status, 0);
        }
        return false;
    }
    return cadre_intake_take(self->intake, question->from, message, numbers, self->now_ms);
}

/* Applies a PUSH, or collects one part of it until it is whole; answers with the outcome. */
static void
push(cadre_shard_t *self, const question_t *question)
{
    cadre_auto(cadre_free) uint64_t *numbers = NULL;
    const cadre_message_t *message = question->message;
    const cadre_push_message_t *push = &message->push;
    /* Not whole yet, or dropped: `collect` has answered what is to be answered. */
    if (push->parts > 1 && !collect(self, question, &numbers)) {
        return;
    }
    const cadre_shard_target_t target = target_of(self);
    uint64_t staleness = 0;
    int status = check_fence(self, message, push->generation);
    if (status == 0) {
        status = cadre_shard_updates_push(self->updates, &target, message, &staleness);
    }
    cadre_intake_end(self->intake, question->from->incarnation, message->request);
    answer_update(self, question, push->update, status, staleness);
}

/* Takes a RESERVE: size 0 gives a reservation up; an update that is refused anyway, or larger than
 * the shard, is answered at once; any other waits for its GRANT. */
static void
reserve(cadre_shard_t *self, const question_t *question)
{
    const cadre_message_t *message = question->message;
    const cadre_reserve_message_t *reserve = &message->reserve;
    const uint64_t size_bytes = cadre_shard_parts_update_size(self->parts);
    if (reserve->size_bytes == 0) {
        cadre_intake_end(self->intake, question->from->incarnation, message->request);
        return;
    }
    int status = check_update(self, message, reserve->update, reserve->generation);
    if (status == 0 && reserve->size_bytes / CADRE_ROW_GRADIENT_FACTOR > size_bytes) {
        status = cadre_fail(CADRE_ESHAPE, "an update of %" PRIu64 " bytes to a shard of %" PRIu64,
                            reserve->size_bytes, size_bytes);
    }
    if (status < 0) {
        cadre_intake_end(self->intake, question->from->incarnation, message->request);
        answer_update(self, question, reserve->update, status, 0);
        return;
    }
    cadre_intake_reserve(self->intake, question->from, message->request, reserve->size_bytes,
                         self->now_ms);
}

/* --- assign --- */

/* Carries out an assignment, which must be of this session and generation. */
static int
assign(cadre_shard_t *self, const cadre_message_t *message)
{
    const cadre_shard_target_t target = target_of(self);
    int status = check_fence(self, message, message->assign.generation);
    if (status < 0) {
        return status;
    }

    return cadre_shard_updates_assign(self->updates, &target, message);
}

/* --- probe --- */

/* Returns whether a request waits here: a PULL for admission, a PUSH for a GRANT, a RESTORE or
 * CREATE for a load. */
static bool
is_waiting(const cadre_shard_t *self, const question_t *question, uint64_t request)
{
    const cadre_admission_t *admission = self->options.admission;
    const cadre_asker_t asker = {*question->from, request};
    const uint64_t incarnation = question->from->incarnation;
    return (admission && cadre_admission_is_waiting(admission, incarnation, request)) ||
           cadre_intake_is_waiting(self->intake, incarnation, request) ||
           (question->plane == CADRE_PLANE_CONTROL &&
            cadre_shard_loads_is_awaited(self->loads, &asker));
}

/* Answers a PROBE: of each request whether it waits here (queued), is known to be applied by its
 * update id or sequence, or is unknown. A request that does not wait was answered in the turn in
 * which it came, so an unknown one, sent before the PROBE, or its answer was lost. */
static void
probe(cadre_shard_t *self, const question_t *question)
{
    const cadre_probe_message_t *probe = &question->message->probe;
    const cadre_probe_list_t asked = cadre_probe_list_view(&probe->requests);
    const bool is_current = check_fence(self, question->message, probe->generation) == 0;
    cadre_probe_answer_t states[CADRE_PROBE_REQUESTS_MAX];
    for (size_t i = 0; i < asked.count; i++) {
        const cadre_probe_t *item = &asked.items[i];
        bool is_applied =
            is_current && cadre_shard_updates_has(self->updates, item->update, item->sequence);
        states[i] = (cadre_probe_answer_t){item->request, is_applied ? CADRE_PROBED_APPLIED
                                                                     : CADRE_PROBED_UNKNOWN};
        if (is_waiting(self, question, item->request)) {
            states[i].state = CADRE_PROBED_QUEUED;
        }
    }
    cadre_message_t answer = answer_of(self, question, CADRE_MESSAGE_PROBED);
    answer.probed.states = cadre_probe_answer_list(states, asked.count);
    send(question, &answer);
}

/* --- the router --- */

/* Acts on a message of the control plane, and answers it. A message that names another shard than
 * this one, or does not belong here, is dropped and counted as malformed. */
static void
on_control(cadre_shard_t *self, const question_t *question)
{
    cadre_message_t *message = question->message;
    const uint64_t *named = cadre_message_shard(message);
    if (named && *named != self->index) {
        cadre_shard_malformed(self); /* the sender repeats it to the ps that serves that shard */
    } else if (message->type == CADRE_MESSAGE_CREATE) {
        create(self, question);
    } else if (message->type == CADRE_MESSAGE_DROP) {
        reply(self, question, drop(self, &message->drop, &question->effects->outbox));
    } else if (message->type == CADRE_MESSAGE_RETIRE) {
        reply(self, question, retire(self, &message->retire));
    } else if (message->type == CADRE_MESSAGE_RESTORE) {
        restore(self, question);
    } else if (message->type == CADRE_MESSAGE_SETTLE) {
        reply(self, question, settle(self, &message->settle));
    } else if (message->type == CADRE_MESSAGE_SNAPSHOT) {
        snapshot(self, question);
    } else if (message->type == CADRE_MESSAGE_CLOSE_CUT) {
        reply(self, question, close_cut(self, &message->close_cut, question->effects));
    } else if (message->type == CADRE_MESSAGE_CHECKPOINT_END) {
        cadre_shard_cut_end(self->cut, message->checkpoint_end.checkpoint);
        reply(self, question, 0);
    } else if (message->type == CADRE_MESSAGE_END_STEP) {
        reply(self, question, end_step(self, &message->end_step));
    } else if (message->type == CADRE_MESSAGE_COUNT) {
        count(self, question);
    } else if (message->type == CADRE_MESSAGE_PROBE) {
        probe(self, question);
    } else {
        cadre_shard_malformed(self);
    }
}

/* Acts on a message of the data plane, and answers it; any message shows that its worker is
 * alive. */
static void
on_data(cadre_shard_t *self, const question_t *question)
{
    cadre_message_t *message = question->message;
    if (question->from->role == CADRE_ROLE_WORKER) {
        cadre_intake_heard(self->intake, question->from->incarnation, self->now_ms);
    }
    if (message->type == CADRE_MESSAGE_PULL) {
        pull(self, question);
    } else if (message->type == CADRE_MESSAGE_PUSH) {
        push(self, question);
    } else if (message->type == CADRE_MESSAGE_RESERVE) {
        reserve(self, question);
    } else if (message->type == CADRE_MESSAGE_ASSIGN) {
        reply(self, question, assign(self, message));
    } else if (message->type == CADRE_MESSAGE_PROBE) {
        probe(self, question);
    } else {
        cadre_shard_malformed(self);
    }
}

/* --- grants of large updates --- */

/* Sends the GRANTs that are due, each under the request id of its RESERVE, with the window of its
 * peer. */
static void
say_grants(cadre_shard_t *self, cadre_outbox_t *outbox)
{
    cadre_task_t to;
    uint64_t request = 0;
    while (cadre_intake_grant(self->intake, self->now_ms, &to, &request)) {
        cadre_message_t grant = message_of(self, CADRE_MESSAGE_GRANT, request);
        grant.grant.window = cadre_intake_window(self->intake);
        cadre_outbox_send(outbox, &to, &grant);
    }
}

/* Excuses peers for the time in which this process stood still. While there are reservations the
 * actor ticks every CADRE_SHARD_TICK_MS; if it comes late this process was stopped or had one long
 * turn, and messages of peers may lie unread. */
static void
excuse_stall(cadre_shard_t *self, uint64_t now_ms)
{
    uint64_t due_ms = self->now_ms + CADRE_SHARD_TICK_MS;
    if (cadre_intake_is_busy(self->intake) && now_ms >= due_ms + CADRE_OWN_STALL_MS) {
        cadre_intake_excuse(self->intake, now_ms - due_ms, now_ms);
    }
}

/* Takes the time, excuses peers for an own stall, and sends the GRANTs that are due. */
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

/* Acts on a message, if its sender may send it on this plane; a coordinator must be the one of the
 * session. Messages of the data plane may ask for room for an update, or free it, so GRANTs are
 * sent after each. */
void
cadre_shard_receive(cadre_shard_t *self, cadre_plane_t plane, const cadre_task_t *from,
                    cadre_message_t *message, cadre_shard_effects_t *effects)
{
    question_t question = {plane, from, message, effects};
    bool stranger = from->role == CADRE_ROLE_COORDINATOR && from->incarnation != self->coordinator;
    bool is_here = cadre_message_plane(message->type) == plane ||
                   message->type == CADRE_MESSAGE_PROBE; /* allowed on both planes */
    if (stranger || cadre_message_authorize(message->type, from->role) < 0 ||
        message->incarnation != from->incarnation || !is_here) {
        cadre_shard_malformed(self);
    } else if (plane == CADRE_PLANE_CONTROL) {
        on_control(self, &question);
    } else {
        on_data(self, &question);
        say_grants(self, &effects->outbox);
    }
    cadre_message_fini(message);
}
