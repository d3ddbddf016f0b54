/*
 * load - the batches of one closure, on their way through the reader.
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
    struct cadre_load *next; /* in the list of spare ones */
    uint64_t closure;
    bool back;                                  /* network actor: the reader has given it back */
    bool forgotten;                             /* network actor: nobody wants it any more */
    size_t count;                               /* of batches */
    cadre_batch_rows_t rows[CADRE_BATCHES_MAX]; /* what to read, by batch */
    cadre_loaded_batch_t batches[CADRE_BATCHES_MAX]; /* memory is used again by the next closure */
    int64_t begin_us; /* when the reader began to read them, and had them */
    int64_t end_us;
    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1];
} cadre_load_t;

cadre_load_t *cadre_load_new(void);
void cadre_load_destroy(cadre_load_t **self_p);

/* Asks for the batches of `closure`. */
void cadre_load_begin(cadre_load_t *self, const cadre_closure_message_t *closure);

/* Bytes of all its tensors. */
size_t cadre_load_size_bytes(const cadre_load_t *self);

/* The tensor that a program calls `name`: "x" and "y" of the first batch, "x1" and "y1" of the
 * second, and so on; NULL for another name. */
const cadre_tensor_t *cadre_load_tensor(const cadre_load_t *self, const char *name);

#endif
