#include "coordinator/closure.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

cadre_closure_t *
cadre_closure_new(uint32_t function)
{
    cadre_closure_t *self = cadre_calloc(1, sizeof(*self));
    self->function = function;
    self->steps = 1;
    self->tag = CADRE_TAG_NONE;
    return self;
}

void
cadre_closure_destroy(cadre_closure_t **self_p)
{
    cadre_closure_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    free(self->batches);
    free(self->resources);
    free(self->victims);
    for (size_t i = 0; i < self->name_count; i++) {
        free(self->names[i]);
    }
    free(self->names);
    cadre_tensor_list_fini(&self->tensors);
    free(self);
}

void
cadre_closure_add_victim(cadre_closure_t *self, uint32_t index, uint32_t process)
{
    if (!self->victims) {
        self->victims = cadre_calloc(CADRE_ATTEMPTS_MAX, sizeof(*self->victims));
    }
    if (self->victim_count < CADRE_ATTEMPTS_MAX) {
        self->victims[self->victim_count++] = (cadre_victim_t){index, process};
    }
}

size_t
cadre_closure_size_bytes(const cadre_closure_t *self)
{
    size_t size_bytes = sizeof(*self) + self->batch_items * sizeof(self->batches[0]) +
                        self->resource_count * sizeof(self->resources[0]);
    for (size_t i = 0; i < self->name_count; i++) {
        size_bytes += sizeof(self->names[0]) + strlen(self->names[i]) + 1;
    }
    return size_bytes + self->tensors.size_bytes;
}

void
cadre_closure_list_push(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    closure->next = NULL;
    closure->previous = self->last;
    if (self->last) {
        self->last->next = closure;
    } else {
        self->first = closure;
    }
    self->last = closure;
    self->count++;
}

void
cadre_closure_list_push_front(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    closure->previous = NULL;
    closure->next = self->first;
    if (self->first) {
        self->first->previous = closure;
    } else {
        self->last = closure;
    }
    self->first = closure;
    self->count++;
}

void
cadre_closure_list_remove(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    if (closure->previous) {
        closure->previous->next = closure->next;
    } else {
        self->first = closure->next;
    }
    if (closure->next) {
        closure->next->previous = closure->previous;
    } else {
        self->last = closure->previous;
    }
    closure->next = NULL;
    closure->previous = NULL;
    self->count--;
}

/* Between `before` and `after`, neighbours of which one may be NULL. */
static void
link_between(cadre_closure_list_t *self, cadre_closure_t *before, cadre_closure_t *closure,
             cadre_closure_t *after)
{
    closure->previous = before;
    closure->next = after;
    if (before) {
        before->next = closure;
    } else {
        self->first = closure;
    }
    if (after) {
        after->previous = closure;
    } else {
        self->last = closure;
    }
    self->count++;
}

void
cadre_closure_list_insert(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    cadre_closure_t *from_front = self->first;
    cadre_closure_t *from_back = self->last;
    while (from_front && from_front->id <= closure->id && from_back->id > closure->id) {
        from_front = from_front->next;
        from_back = from_back->previous;
    }
    if (!from_front || from_front->id > closure->id) {
        link_between(self, from_front ? from_front->previous : NULL, closure, from_front);
    } else {
        link_between(self, from_back, closure, from_back->next);
    }
}
