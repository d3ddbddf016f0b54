#include "coordinator/core/dispatch/closure_sender.h"

#include <stdlib.h>
#include <xxhash.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

/* Lists of a CLOSURE message: the closure's own names and tensors, then those of arguments that are
 * results of other closures. Allocated; freed after the message is sent. */
typedef struct {
    const char **names;
    size_t name_count;
    uint64_t *tensors;
    size_t item_count;
    uint64_t *values;
    size_t value_items;
} lists_t;

void
cadre_closure_sender_init(cadre_closure_sender_t *self, const cadre_closure_sender_links_t *links)
{
    *self = (cadre_closure_sender_t){.links = *links};
}

/* Adds one argument to the lists, and its value to the message if the worker (an incarnation) does
 * not have it. */
static void
add_value(lists_t *lists, cadre_closure_argument_t *argument, uint64_t worker,
          cadre_message_t *message)
{
    const cadre_tensor_list_t *value = &argument->value;
    bool is_told = !cadre_results_are_on(argument->from, argument->position, worker);
    /* which result it is, and whether its value is in this message */
    const uint64_t items[] = {argument->from->closure_id, argument->from->attempt,
                              argument->position, is_told};

    lists->names[lists->name_count++] = argument->name;
    for (size_t i = 0; i < CADRE_COUNT_OF(items); i++) {
        lists->values[lists->value_items++] = items[i];
    }
    if (!is_told) {
        return;
    }

    for (size_t i = 0; i < value->count; i++) {
        lists->tensors[lists->item_count++] = value->items[i];
    }
    cadre_tensor_list_add_chunks(value, message);
}

/* Notes that the worker has the values that it is sent, those that are large enough to be kept.
 * Only after the whole message is built: a worker may keep fewer values than one message has, so a
 * value that occurs twice in it is sent twice. */
static void
note_told(const cadre_closure_t *closure, uint64_t worker)
{
    for (size_t i = 0; i < closure->argument_count; i++) {
        cadre_closure_argument_t *argument = &closure->arguments[i];
        if (argument->value.size_bytes >= CADRE_KEPT_VALUE_SIZE_MIN) {
            cadre_results_told(argument->from, argument->position, worker);
        }
    }
}

/* Adds the values of arguments that are results of other closures, behind the closure's own
 * tensors. Returns the lists, which the message points into and the caller frees. */
static lists_t
add_values(const cadre_closure_t *closure, uint64_t worker, cadre_message_t *message)
{
    size_t items = closure->tensors.count;
    for (size_t i = 0; i < closure->argument_count; i++) {
        items += closure->arguments[i].value.count;
    }
    lists_t lists = {
        .names = cadre_calloc(closure->name_count + closure->argument_count, sizeof(char *)),
        .tensors = cadre_calloc(items, sizeof(uint64_t)),
        .values = cadre_calloc(4 * closure->argument_count, sizeof(uint64_t))};

    for (size_t i = 0; i < closure->name_count; i++) {
        lists.names[lists.name_count++] = closure->names[i];
    }
    for (size_t i = 0; i < closure->tensors.count; i++) {
        lists.tensors[lists.item_count++] = closure->tensors.items[i];
    }
    for (size_t i = 0; i < closure->argument_count; i++) {
        add_value(&lists, &closure->arguments[i], worker, message);
    }
    note_told(closure, worker);

    message->closure.names = (cadre_strs_t){lists.names, lists.name_count};
    message->closure.tensors = (cadre_u64s_t){lists.tensors, lists.item_count};
    message->closure.values = (cadre_u64s_t){lists.values, lists.value_items};
    return lists;
}

/* Returns the seed of a closure. It is mixed well, since functions feed it to generators whose
 * states may be a step of the id apart: splitmix64 adds to its state what a plain multiple of the
 * id would add to the seed. Synchronous closures draw by their order in the program: ids follow the
 * order in which they were begun, which differs from run to run. Those of clients are not in it. */
static uint64_t
seed_of(const cadre_closure_sender_t *self, const cadre_closure_t *closure)
{
    uint64_t number = closure->id;
    if (self->links.options->consistency == CADRE_SYNC && !cadre_closure_is_of_client(closure)) {
        number = closure->sequence > 0 ? closure->sequence : closure->place;
    }
    return XXH3_64bits_withSeed(&number, sizeof(number), self->links.options->seed);
}

/* Sends a CLOSURE to its worker. Besides the call it says what the worker has to know first:
 * variables, the sum of the generations of all shards, drops, an open cut. */
void
cadre_closure_sender_send(const cadre_closure_sender_t *self, const cadre_member_t *worker,
                          cadre_closure_t *closure)
{
    const cadre_closure_sender_links_t *links = &self->links;
    cadre_message_t message = cadre_effects_message(links->effects, CADRE_MESSAGE_CLOSURE);
    message.closure = (cadre_closure_message_t){
        .id = closure->id,
        .attempt = closure->attempt,
        .function = closure->function,
        .steps = closure->steps,
        .flags = closure->wants_results ? CADRE_CLOSURE_WANTS_RESULTS : 0,
        .seed = seed_of(self, closure),
        .variables = closure->variables,
        .batches = {closure->batches, closure->batch_items},
        .names = {(const char *const *)closure->names, closure->name_count},
        .tensors = cadre_tensor_list_items(&closure->tensors),
        .generations = links->recovery->announced,
        .workers = links->members->worker_places,
        .resources = {closure->resources, closure->resource_count},
        .drops = closure->drops,
        .step = closure->in_step ? closure->turn : 0};
    cadre_checkpoint_after(links->checkpoint, closure->id, &message.closure.checkpoint,
                           &message.closure.cut);
    cadre_tensor_list_add_chunks(&closure->tensors, &message);

    lists_t lists = {.names = NULL};
    if (closure->argument_count > 0) {
        lists = add_values(closure, worker->task.incarnation, &message);
    }
    closure->sent_ms = links->effects->now_ms;
    cadre_effects_send(links->effects, &worker->task, &message);

    free(lists.names);
    free(lists.tensors);
    free(lists.values);
}

/* Tells the worker to stop these closures, in as many messages as the list of ids takes. */
void
cadre_closure_sender_cancel(const cadre_closure_sender_t *self, const cadre_member_t *worker,
                            const uint64_t *ids, size_t count)
{
    for (size_t at = 0; at < count; at += CADRE_HELD_MAX) {
        size_t items = count - at < CADRE_HELD_MAX ? count - at : CADRE_HELD_MAX;
        cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_CANCEL);
        message.cancel.ids = (cadre_u64s_t){ids + at, items};
        cadre_effects_send(self->links.effects, &worker->task, &message);
    }
}

void
cadre_closure_sender_note_lacked(cadre_closure_t *closure, uint64_t worker)
{
    for (size_t i = 0; i < closure->argument_count; i++) {
        cadre_closure_argument_t *argument = &closure->arguments[i];
        cadre_results_lacked(argument->from, argument->position, worker);
    }
}
