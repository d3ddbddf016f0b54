#include "common/system/look.h"

#include <sched.h>

#include "common/base/bounds.h"
#include "common/system/clock.h"

enum { MEAN_WAITS = 8 }; /* of so many waits, about */

/* Notes that the processor was lost for long: rests, for longer where the last rest was no use. */
static void
begin_rest(cadre_look_t *self, int64_t now_us)
{
    const bool again = self->rest_us > 0 && now_us - self->rest_until_us < self->rest_us;
    self->rest_us =
        again ? cadre_min_i64(2 * self->rest_us, CADRE_LOOK_REST_US_MAX) : CADRE_LOOK_REST_US;
    self->rest_until_us = now_us + self->rest_us;
}

bool
cadre_look(cadre_look_t *self, bool (*is_there)(void *context), void *context)
{
    int64_t now_us = cadre_clock_now_us();
    self->begin_us = now_us;
    if (self->mean_us > CADRE_LOOK_WAIT_US || now_us < self->rest_until_us) {
        return false;
    }

    while (now_us - self->begin_us < CADRE_LOOK_US) {
        if (is_there(context)) {
            return true;
        }
        sched_yield();
        const int64_t before_us = now_us;
        now_us = cadre_clock_now_us();
        if (now_us - before_us > CADRE_LOOK_LOST_US) {
            begin_rest(self, now_us);
            break;
        }
    }
    return is_there(context);
}

void
cadre_look_end(cadre_look_t *self)
{
    const int64_t waited_us = cadre_clock_now_us() - self->begin_us;
    self->mean_us += (cadre_min_i64(waited_us, CADRE_LOOK_LOST_US) - self->mean_us) / MEAN_WAITS;
}
