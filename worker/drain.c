#include "worker/drain.h"

bool
cadre_drain_begin(cadre_drain_t *self, const char *reason, uint64_t due_ms)
{
    if (self->reason) {
        return false;
    }
    self->reason = reason;
    self->due_ms = due_ms;
    return true;
}

bool
cadre_drain_clears(cadre_drain_t *self, bool asked)
{
    if (self->cleared || (!self->reason && !asked)) {
        return false;
    }
    self->cleared = true;
    return true;
}

cadre_drain_state_t
cadre_drain_state(const cadre_drain_t *self, bool heard, size_t works, uint64_t now_ms)
{
    if (!self->reason) {
        return CADRE_DRAIN_GOES_ON;
    }
    if (!heard && works == 0) {
        return CADRE_DRAIN_ALONE;
    }
    return now_ms >= self->due_ms ? CADRE_DRAIN_TIMED_OUT : CADRE_DRAIN_GOES_ON;
}
