#include "ps/core/values/lanes.h"

/* Calls `each` for every index below `count`: on the threads of the lanes, or without threads one
 * after the other. */
void
cadre_lanes_run(const cadre_lanes_t *self, size_t count, void (*each)(void *argument, size_t index),
                void *argument)
{
    if (self->run) {
        self->run(self->context, count, each, argument);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        each(argument, i);
    }
}
