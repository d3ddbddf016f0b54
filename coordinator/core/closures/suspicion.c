#include "coordinator/core/closures/suspicion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

void
cadre_suspicion_fini(cadre_suspicion_t *self)
{
    free(self->victims);
    *self = (cadre_suspicion_t){.deaths = 0};
}

void
cadre_suspicion_clear(cadre_suspicion_t *self)
{
    cadre_suspicion_fini(self);
}

/* Returns what is recorded of processes that died in the place with this index; NULL: none did. */
static cadre_victim_t *
find(const cadre_suspicion_t *self, uint32_t index)
{
    for (size_t i = 0; i < self->victim_count; i++) {
        if (self->victims[i].index == index) {
            return &self->victims[i];
        }
    }
    return NULL;
}

/* Returns the record without the time and the deaths of processes that had the suspect, which are
 * not to count for how long others live. */
static cadre_record_t
without(const cadre_record_t *record, uint64_t had_ms, uint64_t deaths)
{
    return (cadre_record_t){.lived_ms = record->lived_ms > had_ms ? record->lived_ms - had_ms : 0,
                            .deaths = record->deaths > deaths ? record->deaths - deaths : 0};
}

/* Returns how many processes died per ms that they lived. */
static double
rate(const cadre_record_t *record)
{
    return record->deaths > 0 ? (double)record->deaths / (double)(record->lived_ms + 1) : 0;
}

/* Returns how probable it was, at most 1, that the process died in that time even if the suspect is
 * innocent: by the rate at which processes without the suspect die, in this place or in all,
 * whichever is higher. */
static double
expected(const cadre_suspicion_t *self, const cadre_death_t *death)
{
    const cadre_victim_t *here = find(self, death->index);
    uint64_t had_ms = death->had_ms;
    uint64_t deaths = 0;
    for (size_t i = 0; i < self->victim_count; i++) {
        had_ms += self->victims[i].had_ms;
        deaths += self->victims[i].deaths;
    }

    cadre_record_t all = without(&death->all, had_ms, deaths);
    cadre_record_t place =
        without(&death->place, death->had_ms + (here ? here->had_ms : 0), here ? here->deaths : 0);
    double worse = rate(&place) > rate(&all) ? rate(&place) : rate(&all);
    double share = worse * (double)death->had_ms;
    return share < 1 ? share : 1;
}

/* Counts the death of a worker that had the suspect, in the record of its place; and adds to
 * `expected` how probable that death was if the suspect is innocent. */
void
cadre_suspicion_add(cadre_suspicion_t *self, const cadre_death_t *death)
{
    self->last_expected = expected(self, death);
    cadre_victim_t *victim = find(self, death->index);
    if (!victim) {
        self->victims =
            cadre_realloc(self->victims, self->victim_count + 1, sizeof(*self->victims));
        victim = &self->victims[self->victim_count++];
        *victim = (cadre_victim_t){.index = death->index};
    }

    victim->process = death->process;
    snprintf(victim->host, sizeof(victim->host), "%s", death->host);
    victim->had_ms += death->had_ms;
    victim->deaths++;
    self->last = death->incarnation;
    self->last_index = death->index;
    self->last_ms = death->had_ms;
    self->expected += self->last_expected;
    self->deaths++;
}

/* Takes the last death back if this process is the one that was counted dead. Only the last can be
 * forgiven, as only of that it is known what it added to the sums. */
bool
cadre_suspicion_forgive(cadre_suspicion_t *self, uint64_t incarnation)
{
    if (self->deaths == 0 || self->last == 0 || self->last != incarnation) {
        return false;
    }

    cadre_victim_t *victim = find(self, self->last_index);
    victim->had_ms -= self->last_ms;
    if (--victim->deaths == 0) {
        *victim = self->victims[--self->victim_count];
    }

    self->expected -= self->last_expected;
    self->last = 0;
    self->deaths--;
    return true;
}

bool
cadre_suspicion_is_strong(const cadre_suspicion_t *self)
{
    return self->deaths >= CADRE_SUSPECT_DEATHS;
}

bool
cadre_suspicion_is_proved(const cadre_suspicion_t *self)
{
    return self->deaths >= CADRE_POISON_DEATHS &&
           self->deaths >= CADRE_POISON_FACTOR * self->expected;
}

/* Returns how close the place is to deaths: 2 when a worker died in it while it had the suspect, 1
 * when one on this host did, else 0. */
int
cadre_suspicion_knows(const cadre_suspicion_t *self, uint32_t index, const char *host)
{
    int known = 0;
    for (size_t i = 0; i < self->victim_count; i++) {
        const cadre_victim_t *victim = &self->victims[i];
        bool same_host = strncmp(victim->host, host, sizeof(victim->host) - 1) == 0;
        int found = victim->index == index ? 2 : same_host;
        known = found > known ? found : known;
    }
    return known;
}

/* Writes which workers died of the suspect, for an error text, cut at `size`. */
void
cadre_suspicion_text(const cadre_suspicion_t *self, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < self->victim_count && length < size; i++) {
        const cadre_victim_t *victim = &self->victims[i];
        char times[40] = "";
        if (victim->deaths > 1) {
            snprintf(times, sizeof(times), ", the last of %u", (unsigned)victim->deaths);
        }
        length += (size_t)snprintf(text + length, size - length, "%sworker %u (process %u%s)",
                                   i ? ", " : "", victim->index, victim->process, times);
    }
}
