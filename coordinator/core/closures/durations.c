#include "coordinator/core/closures/durations.h"

enum { PER_OCTAVE = 16 }; /* buckets; durations below this many ms have one each */

/* Returns the bucket of a duration: its octave (power of two) times 16, plus the four bits after
 * the highest one. Short durations are their own bucket; the last bucket takes all too long
 * ones. */
static uint32_t
bucket_of(uint64_t duration_ms)
{
    if (duration_ms < PER_OCTAVE) {
        return (uint32_t)duration_ms;
    }
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(duration_ms) - 4;
    uint32_t bucket = (octave + 1) * PER_OCTAVE + (uint32_t)((duration_ms >> octave) - PER_OCTAVE);
    return bucket < CADRE_DURATIONS_BUCKETS ? bucket : CADRE_DURATIONS_BUCKETS - 1;
}

/* Returns the longest duration of a bucket, in ms. */
static uint64_t
end_of(uint32_t bucket)
{
    if (bucket < PER_OCTAVE) {
        return bucket;
    }
    uint32_t octave = bucket / PER_OCTAVE - 1;
    return ((uint64_t)(bucket % PER_OCTAVE + PER_OCTAVE + 1) << octave) - 1;
}

/* Counts a duration. When the window is full all counts are halved first, so that old durations
 * fade. */
void
cadre_durations_add(cadre_durations_t *self, uint64_t duration_ms)
{
    if (self->total >= CADRE_DURATIONS_WINDOW) {
        self->total = 0;
        for (uint32_t i = 0; i < CADRE_DURATIONS_BUCKETS; i++) {
            self->counts[i] /= 2;
            self->total += self->counts[i];
        }
    }
    self->counts[bucket_of(duration_ms)]++;
    self->total++;
}

/* Returns the duration that `percent` of a hundred closures did not exceed, rounded up to the end
 * of its bucket; 0 without durations. */
uint64_t
cadre_durations_quantile(const cadre_durations_t *self, uint32_t percent)
{
    uint64_t wanted = ((uint64_t)self->total * percent + 99) / 100;
    uint64_t passed = 0;
    for (uint32_t i = 0; i < CADRE_DURATIONS_BUCKETS && self->total > 0; i++) {
        passed += self->counts[i];
        if (passed >= wanted) {
            return end_of(i);
        }
    }
    return 0;
}
