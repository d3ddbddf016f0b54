#include "worker/reader_link.h"

#include "common/base/memory.h"

enum { SPARE_MAX = 64 };

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

/* Frees all loads; the reader must have given them back. */
void
cadre_reader_link_fini(cadre_reader_link_t *self)
{
    forget_all(self);
    while (self->spare) {
        cadre_load_t *load = take_spare(self);
        cadre_load_destroy(&load);
    }
}

/* Has the reader read the batches of the run's closure. An earlier load of the same closure, of an
 * attempt before, is forgotten. */
void
cadre_reader_link_load(cadre_reader_link_t *self, const cadre_run_t *run)
{
    cadre_load_t *load = take_spare(self);
    cadre_load_begin(load, &run->call.message.closure);
    forget(self, cadre_u64_map_put(&self->loads, load->closure, load));
    self->out++;
    cadre_pipe_send(self->pipe, CADRE_READER_LOAD, load);
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
    self->session++;
    cadre_pipe_send(self->pipe, CADRE_READER_RESET, NULL);
}
