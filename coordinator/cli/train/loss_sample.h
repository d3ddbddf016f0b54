/*
 * loss_sample - the mean loss over a sample of the latest closures, without waiting for any.
 *
 * Owner:   a trainer.
 * Thread:  the trainer's.
 *
 * With a future for every closure each loss would be sent back to the coordinator; a sample of them
 * is enough for a progress line.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_LOSS_SAMPLE_H
#define CADRE_COORDINATOR_CLI_TRAIN_LOSS_SAMPLE_H

#include <cadre/coordinator.h>
#include <stdbool.h>

enum {
    CADRE_LOSS_SAMPLE_WINDOW = 32, /* losses that the mean is taken over */
    /* Futures held at most; the trainer then schedules closures without one. */
    CADRE_LOSS_SAMPLE_AWAITED_MAX = 64,
};

/* Zeroed: empty. */
typedef struct {
    cadre_future_t *futures[CADRE_LOSS_SAMPLE_AWAITED_MAX]; /* awaited; NULL entries are free */
    size_t awaited;
    double losses[CADRE_LOSS_SAMPLE_WINDOW]; /* a ring: the newest replaces the oldest */
    size_t count;                            /* losses ever added */
} cadre_loss_sample_t;

bool cadre_loss_sample_has_room(const cadre_loss_sample_t *self);

/* Takes the future of a closure with a result "loss"; there must be room. */
void cadre_loss_sample_add(cadre_loss_sample_t *self, cadre_future_t **future_p);

/* Collects the losses of closures that have ended; a failed closure has none and is dropped. */
void cadre_loss_sample_poll(cadre_loss_sample_t *self);

/* Puts one loss in the window. */
void cadre_loss_sample_put(cadre_loss_sample_t *self, double loss);

/* Returns the mean of the losses in the window; not a number when there is none. */
double cadre_loss_sample_mean(const cadre_loss_sample_t *self);

/* Releases the futures that are still awaited. */
void cadre_loss_sample_fini(cadre_loss_sample_t *self);

#endif
