#include "ps/core/applied_window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum { CAPACITY_MIN = 4096 };

struct cadre_applied_window {
    uint64_t base;
    uint64_t capacity; /* bits in the ring, a power of two from CAPACITY_MIN to
                          CADRE_APPLIED_WINDOW_MAX */
    uint64_t count;    /* bits set; all of them belong to ids in [base, base + capacity) */
    uint64_t *words;   /* the bit of id i is i % capacity */
};

cadre_applied_window_t *
cadre_applied_window_new(uint64_t base)
{
    cadre_applied_window_t *self = cadre_calloc(1, sizeof(*self));
    self->base = base;
    self->capacity = CAPACITY_MIN;
    self->words = cadre_calloc(self->capacity / 64, sizeof(uint64_t));
    return self;
}

void
cadre_applied_window_destroy(cadre_applied_window_t **self_p)
{
    cadre_applied_window_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    free(self->words);
    free(self);
}

static uint64_t *
word_of(const cadre_applied_window_t *self, uint64_t update_id)
{
    return &self->words[update_id % self->capacity / 64];
}

static uint64_t
bit_of(uint64_t update_id)
{
    return UINT64_C(1) << update_id % 64;
}

/* Returns whether `update_id` is settled or marked. */
static bool
is_applied(const cadre_applied_window_t *self, uint64_t update_id)
{
    if (update_id < self->base) {
        return true;
    }
    return update_id - self->base < self->capacity && *word_of(self, update_id) & bit_of(update_id);
}

/* Returns whether an update may be applied: 0, or why not. */
int
cadre_applied_window_check(const cadre_applied_window_t *self, uint64_t update_id)
{
    if (is_applied(self, update_id)) {
        return CADRE_EDUPLICATE;
    }
    if (update_id - self->base >= CADRE_APPLIED_WINDOW_MAX) {
        return cadre_fail(CADRE_EFULL,
                          "update %" PRIu64 " is %d or more beyond the settled %" PRIu64, update_id,
                          CADRE_APPLIED_WINDOW_MAX, self->base);
    }
    return 0;
}

/* Doubles the ring until it holds `update_id`. */
static void
grow(cadre_applied_window_t *self, uint64_t update_id)
{
    uint64_t capacity = self->capacity;
    while (update_id - self->base >= capacity) {
        capacity *= 2;
    }
    cadre_assert(capacity <= CADRE_APPLIED_WINDOW_MAX);
    uint64_t *words = cadre_calloc(capacity / 64, sizeof(uint64_t));
    /* The old ring holds ids [base, base + old capacity), moved a word at a time. Only the word in
     * which the base lies has ids of both ends of the ring: its bits from the base on are the
     * lowest ids, its bits below are the highest. */
    uint64_t first = self->base / 64 * 64;
    uint64_t near_end = ~UINT64_C(0) << self->base % 64;
    for (uint64_t id = first; id - first <= self->capacity; id += 64) {
        uint64_t bits = *word_of(self, id);
        if (id == first) {
            bits &= near_end;
        } else if (id - first == self->capacity) {
            bits &= ~near_end;
        }
        words[id % capacity / 64] |= bits;
    }
    free(self->words);
    self->words = words;
    self->capacity = capacity;
}

/* Marks an update as applied, unless it was before or lies beyond the limit. */
int
cadre_applied_window_mark(cadre_applied_window_t *self, uint64_t update_id)
{
    int status = cadre_applied_window_check(self, update_id);
    if (status < 0) {
        return status;
    }
    if (update_id - self->base >= self->capacity) {
        grow(self, update_id);
    }
    *word_of(self, update_id) |= bit_of(update_id);
    self->count++;
    return 0;
}

/* Clears all bits of the ring. */
static void
forget(cadre_applied_window_t *self)
{
    memset(self->words, 0, self->capacity / 8);
    self->count = 0;
}

/* Settles every id below `base`: clears the bits of the ids that the base passes, a word at a time,
 * and stops early when no bit is left, so that a large jump is cheap. */
void
cadre_applied_window_set_base(cadre_applied_window_t *self, uint64_t base)
{
    if (base <= self->base) {
        return;
    }
    if (base - self->base >= self->capacity) { /* it passes the whole ring */
        forget(self);
    }
    for (uint64_t id = self->base; id < base && self->count > 0;) {
        uint64_t step = 64 - id % 64;
        uint64_t bits = ~UINT64_C(0) << id % 64;
        if (base - id < step) { /* the last word: only its bits below the base */
            step = base - id;
            bits &= bit_of(base) - 1;
        }
        uint64_t *word = word_of(self, id);
        self->count -= (uint64_t)__builtin_popcountll(*word & bits);
        *word &= ~bits;
        id += step;
    }
    self->base = base;
}

void
cadre_applied_window_reset(cadre_applied_window_t *self, uint64_t base)
{
    forget(self);
    self->base = base;
}

uint64_t
cadre_applied_window_base(const cadre_applied_window_t *self)
{
    return self->base;
}

uint64_t
cadre_applied_window_count(const cadre_applied_window_t *self)
{
    return self->count;
}

size_t
cadre_applied_window_size_bytes(const cadre_applied_window_t *self)
{
    return self->capacity / 8;
}
