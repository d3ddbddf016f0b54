#include "worker/reader_link.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "worker/data/batch.h"

enum {
    SPARE_MAX = 64,
    /* Rows of a closure's batches that are copied here, and bytes of their features: less than some
     * 100 us, in which a row costs about as much as its bytes where they are few. */
    COPY_ROWS_MAX = 512,
    COPY_SIZE_MAX = 64 << 10,
};

/* A dataset that the reader was asked to open. */
typedef struct {
    uint64_t number;        /* of the last open request */
    cadre_source_t *source; /* borrowed of the reader; NULL: it is not open, or not in memory */
} known_t;

void
cadre_reader_link_init(cadre_reader_link_t *self, void *pipe)
{
    *self = (cadre_reader_link_t){.pipe = pipe};
}

bool
cadre_reader_link_is_idle(const cadre_reader_link_t *self)
{
    return self->out == 0;
}

/* --- batches --- */

/* Keeps a load (the memory for a closure's batches) to be used again, or frees it when enough are
 * kept. */
static void
spare(cadre_reader_link_t *self, cadre_load_t *load)
{
    if (self->spare_count == SPARE_MAX) {
        cadre_load_destroy(&load);
        return;
    }
    load->next = self->spare;
    self->spare = load;
    self->spare_count++;
}

/* Returns a load that can be used again, else a new one. */
static cadre_load_t *
take_spare(cadre_reader_link_t *self)
{
    cadre_load_t *load = self->spare;
    if (!load) {
        return cadre_load_new();
    }
    self->spare = load->next;
    self->spare_count--;
    return load;
}

/* Marks a load (a closure's batches) as no longer wanted. If the reader has given it back, it
 * becomes a spare at once, else when it comes back. */
static void
forget(cadre_reader_link_t *self, cadre_load_t *load)
{
    if (load && load->back) {
        spare(self, load);
    } else if (load) {
        load->forgotten = true;
    }
}

/* Marks all loads as no longer wanted. */
static void
forget_all(cadre_reader_link_t *self)
{
    cadre_load_t *load = NULL;
    for (size_t cursor = 0; (load = cadre_u64_map_next(&self->loads, &cursor));) {
        forget(self, load);
    }
    cadre_u64_map_fini(&self->loads);
}

/* Forgets all datasets. */
static void
forget_known(cadre_reader_link_t *self)
{
    known_t *known = NULL;
    for (size_t cursor = 0; (known = cadre_u64_map_next(&self->known, &cursor));) {
        free(known);
    }
    cadre_u64_map_fini(&self->known);
}

/* Frees all loads; the reader must have given them back. */
void
cadre_reader_link_fini(cadre_reader_link_t *self)
{
    forget_all(self);
    forget_known(self);
    while (self->spare) {
        cadre_load_t *load = take_spare(self);
        cadre_load_destroy(&load);
    }
}

/* What is to be copied of a closure's batches. */
typedef struct {
    uint64_t rows;
    uint64_t size_bytes;
} few_t;

/* Returns the source of the rows where these are in memory and few, counted in `few` with those
 * before them; else NULL. */
static cadre_source_t *
find_few(const cadre_reader_link_t *self, const cadre_batch_rows_t *rows, few_t *few)
{
    const known_t *known = cadre_u64_map_get(&self->known, rows->dataset);
    if (!known || !known->source || rows->first > INT64_MAX || rows->count > COPY_ROWS_MAX) {
        return NULL;
    }
    const uint64_t features = (uint64_t)cadre_source_info(known->source)->features;
    few->rows += rows->count;
    few->size_bytes += features > COPY_SIZE_MAX ? features : rows->count * features * sizeof(float);
    return few->rows <= COPY_ROWS_MAX && few->size_bytes <= COPY_SIZE_MAX ? known->source : NULL;
}

/* Copies the batches of a load where all are a few rows in memory. Returns false, and the reader is
 * to read them, where they are not, or copying fails: it says why. */
static bool
copy_few(const cadre_reader_link_t *self, cadre_load_t *load)
{
    few_t few = {.rows = 0};
    load->begin_us = cadre_clock_now_us();
    for (size_t i = 0; i < load->count; i++) {
        const cadre_batch_rows_t *rows = &load->rows[i];
        cadre_source_t *source = find_few(self, rows, &few);
        const cadre_batch_order_t order = {.shuffle = rows->order_seed != 0,
                                           .seed = rows->order_seed};
        if (!source || cadre_batch_read(source, &order, (int64_t)rows->first, (int64_t)rows->count,
                                        &load->batches[i].x, &load->batches[i].y) < 0) {
            return false;
        }
    }
    load->end_us = cadre_clock_now_us();
    return true;
}

/* Copies the batches of the run's closure, or has the reader read them. An earlier load of the same
 * closure, of an attempt before, is forgotten. */
const cadre_load_t *
cadre_reader_link_load(cadre_reader_link_t *self, const cadre_run_t *run)
{
    cadre_load_t *load = take_spare(self);
    cadre_load_begin(load, &run->call.message.closure);
    forget(self, cadre_u64_map_put(&self->loads, load->closure, load));
    /* not past loads that the reader has: closures of one dataset go on in their order */
    if (self->out == 0 && copy_few(self, load)) {
        load->back = true;
        return load;
    }
    self->out++;
    cadre_pipe_send(self->pipe, CADRE_READER_LOAD, load);
    return NULL;
}

cadre_load_t *
cadre_reader_link_find(const cadre_reader_link_t *self, uint64_t closure)
{
    return cadre_u64_map_get(&self->loads, closure);
}

void
cadre_reader_link_forget(cadre_reader_link_t *self, uint64_t closure)
{
    forget(self, cadre_u64_map_take(&self->loads, closure));
}

/* Takes back a load that the reader has filled; returns NULL when its closure has ended
 * meanwhile. */
const cadre_load_t *
cadre_reader_link_loaded(cadre_reader_link_t *self, void *pointer)
{
    cadre_load_t *load = pointer;
    self->out--;
    self->blocks_read = load->blocks_read;
    if (load->forgotten) {
        spare(self, load);
        return NULL;
    }
    load->back = true;
    return load;
}

/* --- datasets and resources --- */

/* Has the reader open a dataset, and hands it the rows that came for it. The request names the
 * session: an answer to an earlier one counts for nothing. */
void
cadre_reader_link_open(cadre_reader_link_t *self, cadre_dataset_entry_t *dataset)
{
    cadre_open_request_t *request = cadre_calloc(1, sizeof(*request));
    request->dataset = dataset->id;
    request->session = self->session;
    request->description = dataset->description ? cadre_strdup(dataset->description) : NULL;
    request->rows = cadre_dataset_entry_take_rows(dataset);
    request->number = ++self->opens;
    known_t *known = cadre_calloc(1, sizeof(*known));
    known->number = request->number;
    free(cadre_u64_map_put(&self->known, request->dataset, known));
    self->out++;
    cadre_pipe_send(self->pipe, CADRE_READER_OPEN, request);
}

/* Takes back an open request that the reader has answered; NULL when another session has begun
 * since. */
cadre_open_request_t *
cadre_reader_link_opened(cadre_reader_link_t *self, void *pointer)
{
    cadre_open_request_t *request = pointer;
    self->out--;
    if (request->session != self->session) {
        cadre_open_request_destroy(&request);
        return NULL;
    }
    known_t *known = cadre_u64_map_get(&self->known, request->dataset);
    if (known && known->number == request->number) { /* else the reader closes it again */
        known->source = request->resident;
    }
    return request;
}

/* Has the reader destroy what a resource held; destroys it here when the context is
 * being closed, so that nothing can be sent any more. */
void
cadre_reader_link_release(cadre_reader_link_t *self, cadre_holding_t **holding_p)
{
    if (cadre_pipe_send(self->pipe, CADRE_READER_RELEASE, *holding_p) < 0) {
        cadre_holding_destroy(holding_p);
    }
    *holding_p = NULL;
}

void
cadre_reader_link_reset(cadre_reader_link_t *self)
{
    forget_all(self);
    forget_known(self);
    self->session++;
    cadre_pipe_send(self->pipe, CADRE_READER_RESET, NULL);
}
