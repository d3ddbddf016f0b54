#include "coordinator/core/checkpoint/checkpoint_words.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "coordinator/core/members/closure_words.h"

/* Writes which closure below the cut is the oldest, with its function and worker. */
static void
describe_oldest(const cadre_checkpoint_t *self, char text[CADRE_CHECKPOINT_WAITS_SIZE])
{
    char closure[CADRE_WAITING_TEXT_SIZE];
    const cadre_closure_t *oldest = cadre_begun_oldest(self->links.begun);
    cadre_assert(oldest);
    snprintf(
        text, CADRE_CHECKPOINT_WAITS_SIZE, "%s, the oldest of %zu that were begun before the cut",
        cadre_closure_words(oldest, self->links.catalogue, self->links.effects->now_ms, closure),
        self->below);
}

/* Returns the first shard that has not opened the cut, or written its file where the checkpoint is
 * at that; the last when all have. */
static uint32_t
laggard(const cadre_checkpoint_t *self)
{
    const bool is_writing = self->state == CADRE_CHECKPOINT_WRITING;
    uint32_t shard = 0;
    while (shard + 1 < self->links.options->ps_count &&
           (is_writing ? self->shards[shard].written : self->shards[shard].taken)) {
        shard++;
    }
    return shard;
}

/* Returns what a draft waits for before its cut. */
static const char *
what_opening_waits_for(const cadre_checkpoint_t *self, const char *recovery)
{
    if (!self->draft) {
        return "the store to make a directory for it";
    }
    return recovery ? recovery : "a resumed variable to be created";
}

/* Returns what holds up a commit that was ordered. */
static const char *
what_commit_waits_for(const cadre_checkpoint_t *self, const char *recovery)
{
    if (!self->committed) {
        return "the store to commit it";
    }
    return recovery ? recovery : "shards to be restored from the one before";
}

/* Writes, for people, what the checkpoint under way waits for; an empty text when none is under
 * way. */
void
cadre_checkpoint_waits(const cadre_checkpoint_t *self, char text[CADRE_CHECKPOINT_WAITS_SIZE])
{
    char words[CADRE_WAITING_TEXT_SIZE];
    const char *recovery = cadre_recovery_words(self->links.recovery, words);

    text[0] = '\0';
    switch (self->state) {
    case CADRE_CHECKPOINT_IDLE:
        break;
    case CADRE_CHECKPOINT_OPENING:
        snprintf(text, CADRE_CHECKPOINT_WAITS_SIZE, "%s", what_opening_waits_for(self, recovery));
        break;
    case CADRE_CHECKPOINT_CUT:
        /* Closures are named before shards: a closure may run for long, a cut opens at once. */
        if (self->below > 0) {
            describe_oldest(self, text);
        } else {
            snprintf(text, CADRE_CHECKPOINT_WAITS_SIZE, "ps %u to open the cut", laggard(self));
        }
        break;
    case CADRE_CHECKPOINT_WRITING:
        snprintf(text, CADRE_CHECKPOINT_WAITS_SIZE, "ps %u to write its file", laggard(self));
        break;
    case CADRE_CHECKPOINT_COMMITTING:
        snprintf(text, CADRE_CHECKPOINT_WAITS_SIZE, "%s", what_commit_waits_for(self, recovery));
        break;
    }
}
