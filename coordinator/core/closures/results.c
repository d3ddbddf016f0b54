#include "coordinator/core/closures/results.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

cadre_results_t *
cadre_results_new(void)
{
    cadre_results_t *self = cadre_calloc(1, sizeof(*self));
    self->references = 1;
    return self;
}

cadre_results_t *
cadre_results_ref(cadre_results_t *self)
{
    self->references++;
    return self;
}

/* Drops one reference; the last frees the results. By then no argument may wait for them. */
void
cadre_results_unref(cadre_results_t **self_p)
{
    cadre_results_t *self = *self_p;
    *self_p = NULL;
    if (!self || --self->references > 0) {
        return;
    }

    cadre_assert(!self->waiting_first);
    for (size_t i = 0; i < self->name_count; i++) {
        free(self->names[i]);
    }

    free(self->names);
    free(self->text);
    free(self->holders);
    cadre_tensor_list_fini(&self->tensors);
    free(self);
}

void
cadre_results_set_future(cadre_results_t *self, struct cadre_future *future)
{
    self->future = future;
}

/* --- which workers have the values --- */

/* Returns the entry of the worker with this incarnation; NULL: it is not known to have any
 * result. */
static cadre_value_holder_t *
find_holder(const cadre_results_t *self, uint64_t worker)
{
    for (size_t i = 0; i < self->holder_count; i++) {
        if (self->holders[i].worker == worker) {
            return &self->holders[i];
        }
    }
    return NULL;
}

/* Returns the entry of this worker, which is added if need be; it replaces another where there are
 * CADRE_VALUE_HOLDERS_MAX. */
static cadre_value_holder_t *
holder_of(cadre_results_t *self, uint64_t worker)
{
    cadre_value_holder_t *holder = find_holder(self, worker);
    if (holder) {
        return holder;
    }

    if (self->holder_count < CADRE_VALUE_HOLDERS_MAX) {
        self->holders =
            cadre_realloc(self->holders, self->holder_count + 1, sizeof(*self->holders));
        holder = &self->holders[self->holder_count++];
    } else {
        holder = &self->holders[self->holder_next++ % CADRE_VALUE_HOLDERS_MAX];
    }

    *holder = (cadre_value_holder_t){.worker = worker};
    return holder;
}

bool
cadre_results_are_on(const cadre_results_t *self, size_t position, uint64_t worker)
{
    const cadre_value_holder_t *holder = find_holder(self, worker);
    return holder && holder->results >> position & 1;
}

void
cadre_results_told(cadre_results_t *self, size_t position, uint64_t worker)
{
    holder_of(self, worker)->results |= UINT64_C(1) << position;
}

void
cadre_results_lacked(cadre_results_t *self, size_t position, uint64_t worker)
{
    cadre_value_holder_t *holder = find_holder(self, worker);
    if (holder) {
        holder->results &= ~(UINT64_C(1) << position);
    }
}

/* --- the end of the closure --- */

/* Returns which results the worker that computed them keeps for itself, a bit for each: the large
 * ones. */
static uint64_t
kept_by_worker(const cadre_results_t *self)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < self->name_count; i++) {
        cadre_tensor_list_t tensor = {.count = 0};
        if (cadre_tensor_list_part(&self->tensors, i, &tensor) == 0 &&
            tensor.size_bytes >= CADRE_KEPT_VALUE_SIZE_MIN) {
            kept |= UINT64_C(1) << i;
        }
        cadre_tensor_list_fini(&tensor);
    }

    return kept;
}

void
cadre_results_set_turn(cadre_results_t *self, uint64_t turn)
{
    self->turn = turn;
}

/* Notes how the closure ended, once. Takes the names and tensors of its report, or else keeps the
 * error's text. */
void
cadre_results_end(cadre_results_t *self, uint64_t closure_id, int status, const char *text,
                  const cadre_message_t *message)
{
    cadre_assert(!self->ended);
    self->ended = true;
    self->status = status;
    self->closure_id = closure_id;
    if (status < 0) {
        self->text = cadre_strdup(text ? text : "");
        return;
    }

    /* ended well, but nobody asked for results */
    if (!message) {
        return;
    }

    const cadre_closure_done_message_t *done = &message->closure_done;
    self->name_count = done->names.count;
    self->names = cadre_calloc(self->name_count, sizeof(char *));
    for (size_t i = 0; i < self->name_count; i++) {
        self->names[i] = cadre_strdup(done->names.items[i]);
    }

    cadre_tensor_list_share(&self->tensors, done->tensors, message->chunks, message->chunk_count);
    self->attempt = done->attempt;
    /* The worker that computed large results keeps them for closures that take them. */
    uint64_t kept = kept_by_worker(self);
    if (kept) {
        holder_of(self, message->incarnation)->results = kept;
    }
}

size_t
cadre_results_take(cadre_results_t *self)
{
    return self->takers++ == 0 ? self->tensors.size_bytes : 0;
}

size_t
cadre_results_let_go(cadre_results_t *self)
{
    return --self->takers == 0 ? self->tensors.size_bytes : 0;
}

size_t
cadre_results_keep(cadre_results_t *self)
{
    return self->kept++ == 0 ? self->tensors.size_bytes : 0;
}

size_t
cadre_results_keep_no_more(cadre_results_t *self)
{
    return --self->kept == 0 ? self->tensors.size_bytes : 0;
}

size_t
cadre_results_count_once(cadre_results_t *self)
{
    size_t size_bytes = self->counted ? 0 : self->tensors.size_bytes;
    self->counted = true;
    return size_bytes;
}

void
cadre_results_uncount(cadre_results_t *self)
{
    self->counted = false;
}

/* Gives the index of the result called `name` (NULL: the first). */
int
cadre_results_find(const cadre_results_t *self, const char *name, size_t *position)
{
    for (size_t i = 0; i < self->name_count; i++) {
        if (!name || strcmp(self->names[i], name) == 0) {
            *position = i;
            return 0;
        }
    }
    return cadre_fail(CADRE_ENOTFOUND, "closure %" PRIu64 " has no result called %s",
                      self->closure_id, name ? name : "anything");
}

/* --- arguments --- */

/* Returns 0 unless it is certain that the argument will never have a value: its closure has failed,
 * or has ended without such a result. */
int
cadre_closure_argument_check(const cadre_closure_argument_t *self)
{
    size_t position = 0;
    if (!self->from->ended) {
        return 0;
    }

    if (self->from->status < 0) {
        return cadre_fail(self->from->status, "argument %s is of a closure that has failed: %s",
                          self->name, self->from->text);
    }

    int status = cadre_results_find(self->from, self->result, &position);
    return status < 0 ? cadre_fail_within(status, "argument %s", self->name) : 0;
}

/* Fills in the argument's value from the results of a closure that has ended; does nothing the
 * second time. */
int
cadre_closure_argument_take(cadre_closure_argument_t *self)
{
    if (self->is_there) {
        return 0;
    }

    cadre_assert(self->from->ended);
    int status = cadre_results_find(self->from, self->result, &self->position);
    if (status == 0) {
        status = cadre_tensor_list_part(&self->from->tensors, self->position, &self->value);
    }

    self->is_there = status == 0;
    return status < 0 ? cadre_fail_within(status, "argument %s", self->name) : 0;
}

/* Appends the argument to the list of those that wait for the same results. */
void
cadre_closure_argument_wait(cadre_closure_argument_t *self)
{
    cadre_assert(!self->waits && !self->from->ended);
    self->waits = true;
    self->next = NULL;
    self->previous = self->from->waiting_last;
    if (self->previous) {
        self->previous->next = self;
    } else {
        self->from->waiting_first = self;
    }

    self->from->waiting_last = self;
}

/* Takes the argument out of the list of those that wait; does nothing when it does not wait. */
void
cadre_closure_argument_wait_no_more(cadre_closure_argument_t *self)
{
    if (!self->waits) {
        return;
    }

    self->waits = false;
    if (self->previous) {
        self->previous->next = self->next;
    } else {
        self->from->waiting_first = self->next;
    }

    if (self->next) {
        self->next->previous = self->previous;
    } else {
        self->from->waiting_last = self->previous;
    }
}

void
cadre_closure_argument_fini(cadre_closure_argument_t *self)
{
    cadre_assert(!self->waits);
    free(self->name);
    free(self->result);
    cadre_results_unref(&self->from);
    cadre_tensor_list_fini(&self->value);
}
