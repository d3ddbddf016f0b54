#include "coordinator/cli/train/loss_sample.h"

#include <math.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"

bool
cadre_loss_sample_has_room(const cadre_loss_sample_t *self)
{
    return self->awaited < CADRE_LOSS_SAMPLE_AWAITED_MAX;
}

/* Puts the future into a free place, of which there must be one, and takes it: *future_p is NULL
 * then, which ends the loop. */
void
cadre_loss_sample_add(cadre_loss_sample_t *self, cadre_future_t **future_p)
{
    cadre_assert(cadre_loss_sample_has_room(self));
    for (size_t i = 0; *future_p; i++) {
        if (!self->futures[i]) {
            self->futures[i] = *future_p;
            *future_p = NULL;
            self->awaited++;
        }
    }
}

void
cadre_loss_sample_put(cadre_loss_sample_t *self, double loss)
{
    self->losses[self->count++ % CADRE_LOSS_SAMPLE_WINDOW] = loss;
}

/* Collects the losses of closures that have ended, without waiting. The future of a failed closure
 * has no loss and is dropped. */
void
cadre_loss_sample_poll(cadre_loss_sample_t *self)
{
    for (size_t i = 0; i < CADRE_LOSS_SAMPLE_AWAITED_MAX && self->awaited > 0; i++) {
        if (!self->futures[i]) {
            continue;
        }

        cadre_auto(cadre_tensor_fini) cadre_tensor_t loss = {0};
        int status = cadre_future_fetch(self->futures[i], "loss", &loss, 0);
        if (status == 0 && loss.dtype == CADRE_F32 && cadre_tensor_count(&loss) == 1) {
            cadre_loss_sample_put(self, *(const float *)loss.data);
        }

        if (status != CADRE_ETIMEOUT && status != CADRE_EINTERRUPTED) {
            cadre_future_destroy(&self->futures[i]);
            self->awaited--;
        }
    }
}

/* Returns the mean of the losses in the window; NaN when there is none. */
double
cadre_loss_sample_mean(const cadre_loss_sample_t *self)
{
    size_t count = cadre_min_u64(self->count, CADRE_LOSS_SAMPLE_WINDOW);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += self->losses[i];
    }
    return count > 0 ? sum / (double)count : NAN;
}

/* Releases the futures that are still awaited. */
void
cadre_loss_sample_fini(cadre_loss_sample_t *self)
{
    for (size_t i = 0; i < CADRE_LOSS_SAMPLE_AWAITED_MAX; i++) {
        if (self->futures[i]) {
            cadre_future_destroy(&self->futures[i]);
        }
    }
    *self = (cadre_loss_sample_t){0};
}
