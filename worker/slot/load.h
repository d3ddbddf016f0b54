/*
 * load - a request for the batches of one closure, and the batches that the reader has read for it.
 *
 * Owner:   one thread at a time: the network actor makes it, the reader fills it and gives it back,
 *          a slot reads the tensors while its run is computing, the network actor uses it again.
 */
#ifndef CADRE_WORKER_SLOT_LOAD_H
#define CADRE_WORKER_SLOT_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/tensor.h>

#include "common/base/limits.h"
#include "common/wire/message.h"
#include "common/wire/record_list.h"

typedef struct {
    cadre_tensor_t x; /* f32 [rows, features] */
    cadre_tensor_t y; /* [rows] */
} cadre_loaded_batch_t;

typedef struct cadre_load {
    struct cadre_load *next; /* in the network actor's list of spare loads */
    uint64_t closure;
    /* The reader has given the load back. Used, like `forgotten`, by the network actor only. */
    bool back;
    bool forgotten; /* the closure has ended: nobody wants the batches */
    size_t count;   /* number of batches */
    cadre_batch_rows_t rows[CADRE_BATCHES_MAX];      /* [count]: which rows to read */
    cadre_loaded_batch_t batches[CADRE_BATCHES_MAX]; /* [count]; the next closure of this load uses
                                                        their memory again */
    int64_t begin_us;                                /* when the reader began to read the batches */
    int64_t end_us;                                  /* when it had read them */
    /* Blocks of streamed datasets that the reader has read since it gave the load before this one
     * back, those that it read ahead included. */
    uint64_t blocks_read;
    int status; /* 0, or why a batch could not be read */
    char text[CADRE_TEXT_SIZE_MAX + 1];
} cadre_load_t;

cadre_load_t *cadre_load_new(void);
void cadre_load_destroy(cadre_load_t **self_p);

/* Makes the load a request for the batches of `closure`. */
void cadre_load_begin(cadre_load_t *self, const cadre_closure_message_t *closure);

/* Returns the bytes of all tensors of the load. */
size_t cadre_load_size_bytes(const cadre_load_t *self);

/* Returns the tensor that a program calls `name`: "x" and "y" of the first batch, "x1" and "y1" of
 * the second, and so on; NULL for another name. */
const cadre_tensor_t *cadre_load_tensor(const cadre_load_t *self, const char *name);

#endif
