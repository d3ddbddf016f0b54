#include "coordinator/core/shards/repairs.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

/* Request ids of repairs begin above this, those of all other requests below: an answer names its
 * request by the id alone. */
#define REPAIR_REQUESTS (UINT64_C(1) << 62)

/* `detail` of a request is MAY_REFUSE * id + shard, where id is that of a variable whose creation
 * by the program is under way, or 0 if the shard must not refuse. */
enum { MAY_REFUSE = 1 << 16 };

void
cadre_repairs_init(cadre_repairs_t *self, const cadre_repairs_links_t *links, uint32_t shard_count)
{
    *self = (cadre_repairs_t){.links = *links};
    self->pending = cadre_calloc(shard_count, sizeof(*self->pending));
    cadre_shard_requests_init(&self->requests, shard_count, REPAIR_REQUESTS);
}

void
cadre_repairs_fini(cadre_repairs_t *self)
{
    cadre_shard_requests_fini(&self->requests);
    free(self->pending);
    self->pending = NULL;
}

/* --- answers --- */

/* Returns whether a shard refuses a variable whose creation is still under way. The call that
 * creates it may have the shard's consent from before the loss and does not ask again: so the
 * refusal fails the creation, and not the repair. */
static bool
is_creation_refused(cadre_repairs_t *self, uint64_t id, int status, const cadre_message_t *reply)
{
    if (id == 0 || self->links.catalogue->variables[id - 1]->created) {
        return false;
    }

    /* gone: the program has given the creation up */
    bool is_gone = cadre_catalogue_is_vacant(self->links.catalogue, (uint32_t)id);
    /* by these a shard refuses a variable; other statuses are failures of the repair */
    bool is_refused = status == CADRE_EFULL || status == CADRE_EDTYPE || status == CADRE_ESHAPE;
    if (is_refused && !is_gone && self->creation_status == 0) {
        self->creation_status = status;
        snprintf(self->creation_text, sizeof(self->creation_text), "%s", reply->reply.text);
    }

    return is_refused || is_gone;
}

/* Takes the answer to a request of a repair. `detail` is MAY_REFUSE * id + shard; id: that of a
 * variable whose creation is under way, or 0. A refusal of the repair is left in self->refusal. */
static void
on_repaired(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    cadre_repairs_t *self = context;
    uint64_t shard = detail % MAY_REFUSE;
    if (status == CADRE_ECANCELLED || self->pending[shard] == 0) {
        return; /* the answer belongs to a repair that was given up */
    }

    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    status = answered ? -(int)reply->reply.status : CADRE_EMALFORMED;
    if (status != 0 && !is_creation_refused(self, detail / MAY_REFUSE, status, reply)) {
        self->refusal = (cadre_refusal_t){
            .status = status, .text = answered ? reply->reply.text : "it answered out of turn"};
        return; /* stays pending: a shard that has refused is never repaired */
    }

    self->pending[shard]--;
}

/* Takes a shard's answer; false when it is to no request of a repair. The handler of the answer
 * notes a refusal, which is given to the caller. */
bool
cadre_repairs_on_answer(cadre_repairs_t *self, uint32_t shard, const cadre_message_t *answer,
                        cadre_refusal_t *refusal)
{
    self->refusal = (cadre_refusal_t){.status = 0};
    bool is_ours = cadre_shard_requests_answer(&self->requests, shard, answer);
    *refusal = self->refusal;
    return is_ours;
}

/* --- questions --- */

/* Queues one request of a shard's repair and counts it as unanswered. `detail` as in MAY_REFUSE. */
static void
ask(cadre_repairs_t *self, uint32_t shard, cadre_message_t *message, uint64_t detail)
{
    cadre_shard_requests_ask(&self->requests, shard, message, on_repaired, self, detail);
    self->pending[shard]++;
}

/* Asks the shard to begin with the restore point, in its new generation. */
static void
ask_restore(cadre_repairs_t *self, uint32_t shard, const cadre_repair_order_t *order)
{
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_RESTORE);
    message.restore = (cadre_restore_message_t){.path = order->point->path,
                                                .cut = order->base,
                                                .generation = order->generation,
                                                .shard = shard,
                                                .ended = order->ended};
    ask(self, shard, &message, shard);
}

/* Asks the shard to create one partition; `fresh`: its restore point lacks the variable, which must
 * be initialised. */
static void
ask_create(cadre_repairs_t *self, uint32_t shard, const cadre_repair_order_t *order,
           const cadre_variable_t *variable, uint32_t part)
{
    cadre_create_lists_t lists;
    cadre_message_t message = cadre_catalogue_create_message(variable, part, &lists);
    message.incarnation = self->links.effects->incarnation;
    message.epoch = self->links.effects->epoch;
    message.create.generation = order->generation;
    message.create.fresh = cadre_restore_point_lacks(order->point, variable);
    ask(self, shard, &message,
        shard + (variable->created ? 0 : MAY_REFUSE * (uint64_t)variable->id));
}

/* Asks the shard to create all its partitions, but for variables that were dropped before the
 * restore point. */
static void
ask_creates(cadre_repairs_t *self, uint32_t shard, const cadre_repair_order_t *order)
{
    for (uint32_t i = 0; i < self->links.catalogue->variable_count; i++) {
        const cadre_variable_t *variable = self->links.catalogue->variables[i];
        if (cadre_restore_point_is_past(order->point, variable)) {
            continue;
        }
        for (uint32_t part = 0; part < variable->partitions; part++) {
            if (variable->shards[part] == shard) {
                ask_create(self, shard, order, variable, part);
            }
        }
    }
}

cadre_message_t
cadre_repairs_retire_message(const cadre_repairs_t *self, uint32_t variable, uint32_t shard,
                             uint64_t generation, uint64_t checkpoint)
{
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_RETIRE);
    message.retire = (cadre_retire_message_t){
        .variable = variable, .checkpoint = checkpoint, .generation = generation, .shard = shard};
    return message;
}

/* Asks for a RETIRE of each dropped variable that the shard still holds, as it must not get into
 * the next checkpoint (I5). After all CREATEs. */
static void
ask_retires(cadre_repairs_t *self, uint32_t shard, const cadre_repair_order_t *order)
{
    const cadre_variable_t *variable = NULL;
    for (size_t i = 0; (variable = cadre_drops_kept(self->links.drops, i)); i++) {
        if (cadre_variable_is_on(variable, shard) &&
            !cadre_restore_point_is_past(order->point, variable)) {
            /* 0: which checkpoint is the last that holds the variable does not matter here */
            cadre_message_t message =
                cadre_repairs_retire_message(self, variable->id, shard, order->generation, 0);
            ask(self, shard, &message, shard);
        }
    }
}

/* Begins the repair of a shard: RESTORE, then CREATEs, then RETIREs. Requests of a repair before it
 * are given up. */
void
cadre_repairs_begin(cadre_repairs_t *self, uint32_t shard, const cadre_repair_order_t *order)
{
    self->pending[shard] = 0;
    cadre_shard_requests_clear(&self->requests, shard);
    ask_restore(self, shard, order);
    ask_creates(self, shard, order);
    ask_retires(self, shard, order);
}

void
cadre_repairs_give_up(cadre_repairs_t *self, uint32_t shard)
{
    self->pending[shard] = 0;
}

void
cadre_repairs_begin_creation(cadre_repairs_t *self)
{
    self->creation_status = 0;
}

/* --- assignments that a replay repeats --- */

/* Takes the answer to an assignment that was repeated. */
static void
on_assigned(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    (void)detail;
    cadre_repairs_t *self = context;
    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    if (answered) {
        status = -(int)reply->reply.status;
    }

    bool is_made = answered && status == 0;
    /* values that are not finite were refused the first time as well */
    bool is_refused_again = answered && status == CADRE_ENOTFINITE;
    if (!is_made && !is_refused_again && status != CADRE_ECANCELLED) {
        cadre_effects_log(self->links.effects, 'E', "assignment_replay_failed", "why=\"%.200s\"",
                          answered ? reply->reply.text : "it answered out of turn");
    }

    /* `assign_pending` is 0 if the pass was restarted meanwhile, which gave up its requests. */
    if (self->links.replay->assign_pending > 0) {
        cadre_replay_assigned(self->links.replay);
    }
}

/* Sends an assignment to its shard again, from the copy that the replay keeps. */
void
cadre_repairs_repeat(cadre_repairs_t *self, const cadre_replay_assign_t *assign)
{
    const cadre_outbox_entry_t *entry = &assign->entry;
    cadre_message_t message;
    cadre_chunk_t **chunks = cadre_calloc(entry->chunk_count, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < entry->chunk_count; i++) {
        chunks[i] = cadre_chunk_ref(entry->chunks[i]);
    }

    int status =
        cadre_message_decode(cadre_chunk_data(entry->header), cadre_chunk_size_bytes(entry->header),
                             chunks, entry->chunk_count, &message);
    cadre_assert(status == 0); /* the message was encoded by cadre_replay_note_assign */

    message.assign.checkpoint = 0; /* while closures run again no cut is open */
    message.assign.cut = 0;
    cadre_shard_requests_ask(&self->requests, assign->shard, &message, on_assigned, self,
                             assign->shard);
    cadre_message_fini(&message);
    free(chunks);
}
