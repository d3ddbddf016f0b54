#include "coordinator/core/shards/closure_log.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

enum { CAPACITY_MIN = 16 };

struct cadre_closure_block {
    size_t count; /* never 0: an empty block is freed */
    cadre_closure_t *closures[CADRE_CLOSURE_LOG_BLOCK];
};

static uint64_t
block_of(uint64_t number)
{
    return number / CADRE_CLOSURE_LOG_BLOCK;
}

/* Returns where the ring has the pointer to this block. */
static cadre_closure_block_t **
place(const cadre_closure_log_t *self, uint64_t block)
{
    return &self->blocks[block & (self->capacity - 1)];
}

void
cadre_closure_log_fini(cadre_closure_log_t *self)
{
    cadre_assert(self->count == 0);
    free(self->blocks);
    *self = (cadre_closure_log_t){.count = 0};
}

/* Makes room in the ring for the blocks with numbers from `first` to before `end`. */
static void
span(cadre_closure_log_t *self, uint64_t first, uint64_t end)
{
    size_t capacity = self->capacity ? self->capacity : CAPACITY_MIN;
    while (capacity < end - first) {
        capacity *= 2;
    }

    if (capacity > self->capacity) {
        cadre_closure_block_t **blocks = cadre_calloc(capacity, sizeof(cadre_closure_block_t *));
        for (uint64_t block = self->first; block < self->end; block++) {
            blocks[block & (capacity - 1)] = *place(self, block);
        }
        free(self->blocks);
        self->blocks = blocks;
        self->capacity = capacity;
    }

    self->first = first;
    self->end = end;
}

/* Puts a closure in at its number, in a block that is allocated where need be. */
void
cadre_closure_log_put(cadre_closure_log_t *self, cadre_closure_t *closure)
{
    uint64_t block = block_of(closure->number);
    if (self->count == 0) {
        span(self, block, block + 1);
        self->lowest = closure->number;
    } else if (block < self->first) {
        span(self, block, self->end);
    } else if (block >= self->end) {
        span(self, self->first, block + 1);
    }

    cadre_closure_block_t **at = place(self, block);
    if (!*at) {
        *at = cadre_calloc(1, sizeof(**at));
    }

    cadre_closure_t **slot = &(*at)->closures[closure->number % CADRE_CLOSURE_LOG_BLOCK];
    cadre_assert(!*slot);
    *slot = closure;
    (*at)->count++;
    self->count++;
    self->lowest = closure->number < self->lowest ? closure->number : self->lowest;
}

/* Returns the first closure whose number is at least `number`; NULL when there is none. */
static cadre_closure_t *
at_or_after(const cadre_closure_log_t *self, uint64_t number)
{
    uint64_t block = block_of(number);
    size_t slot = number % CADRE_CLOSURE_LOG_BLOCK;
    if (block < self->first) {
        block = self->first;
        slot = 0;
    }

    for (; block < self->end; block++, slot = 0) {
        const cadre_closure_block_t *found = *place(self, block);
        for (; found && slot < CADRE_CLOSURE_LOG_BLOCK; slot++) {
            if (found->closures[slot]) {
                return found->closures[slot];
            }
        }
    }

    return NULL;
}

/* Takes a closure out, and frees its block if it was the last one there. */
void
cadre_closure_log_take(cadre_closure_log_t *self, const cadre_closure_t *closure)
{
    cadre_closure_block_t **at = place(self, block_of(closure->number));
    cadre_closure_t **slot = &(*at)->closures[closure->number % CADRE_CLOSURE_LOG_BLOCK];

    cadre_assert(*slot == closure);
    *slot = NULL;
    self->count--;
    if (--(*at)->count == 0) {
        cadre_free(at);
    }

    while (self->first < self->end && !*place(self, self->first)) {
        self->first++;
    }

    while (self->end > self->first && !*place(self, self->end - 1)) {
        self->end--;
    }

    if (closure->number == self->lowest && self->count > 0) {
        self->lowest = at_or_after(self, closure->number)->number;
    }
}

cadre_closure_t *
cadre_closure_log_first(const cadre_closure_log_t *self)
{
    return self->count > 0 ? at_or_after(self, self->lowest) : NULL;
}

cadre_closure_t *
cadre_closure_log_next(const cadre_closure_log_t *self, const cadre_closure_t *closure)
{
    return at_or_after(self, closure->number + 1);
}
