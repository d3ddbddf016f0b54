#include "worker/slot/reader_actor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/u64_map.h"
#include "common/base/utf8.h"
#include "common/net/actor.h"
#include "common/system/clock.h"
#include "common/system/log.h"
#include "common/system/poll.h"
#include "worker/data/batch.h"

struct cadre_reader_actor {
    cadre_actor_t *actor;
    char *folder;
    bool confined;
    cadre_u64_map_t sources; /* cadre_source_t by dataset id */
    /* What was read last, behind which to read ahead; NULL: nothing is to be read ahead. */
    cadre_source_t *ahead;
    cadre_batch_order_t order;
    int64_t first;
    int64_t count;
    uint64_t blocks_read; /* blocks of streamed datasets that no load has told of */
};

void
cadre_open_request_destroy(cadre_open_request_t **self_p)
{
    cadre_open_request_t *self = *self_p;
    if (self) {
        *self_p = NULL;
        free(self->description);
        cadre_row_chunks_fini(&self->rows);
        free(self);
    }
}

/* Closes all datasets. */
static void
close_sources(cadre_reader_actor_t *self)
{
    cadre_source_t *source = NULL;
    for (size_t cursor = 0; (source = cadre_u64_map_next(&self->sources, &cursor));) {
        cadre_source_close(&source);
    }
    cadre_u64_map_fini(&self->sources);
    self->ahead = NULL;
}

/* Opens the dataset that a description (JSON) describes, or that has the rows of the request. */
static int
open_source(const cadre_reader_actor_t *self, const cadre_open_request_t *request,
            cadre_source_t **out)
{
    const char *description = request->description;
    if (!description) {
        return cadre_source_open_rows(&request->rows, 0, out);
    }

    cadre_auto(cadre_data_spec_fini) cadre_data_spec_t spec = {0};
    int status = cadre_data_spec_decode(description, strlen(description), &spec);
    if (status < 0) {
        return status;
    }
    bool is_bad_line = false;
    cadre_source_options_t options = {
        .base = self->folder, .confined = self->confined, .is_bad_line = &is_bad_line};
    status = cadre_source_open(&spec, &options, out);
    /* With some to skip the text says that there are more bad lines than those. The command looks
     * for these words, to offer "skip_bad" where that helps. */
    return is_bad_line && spec.skip_bad == 0 ? cadre_fail_within(status, "bad line") : status;
}

/* Logs the bad lines that were skipped, as far as their texts were kept. */
static void
log_skipped(const cadre_source_t *source, uint32_t dataset)
{
    const char *line = NULL;
    for (int i = 0; (line = cadre_source_skipped(source, i)); i++) {
        cadre_log(CADRE_LOG_WARN, "line_skipped", "dataset=%u line=\"%s\"", dataset, line);
    }
}

/* Says what of a dataset is right and perhaps not meant, in the answer and the log. */
static void
tell_doubts(const cadre_source_info_t *info, cadre_open_request_t *request)
{
    cadre_auto(cadre_free) char *header =
        *info->doubtful_header ? cadre_asprintf("%s is not read as data, it is taken for the "
                                                "header: say true or false as its header",
                                                info->doubtful_header)
                               : NULL;
    cadre_auto(cadre_free) char *frame =
        info->large_frame_path
            ? cadre_asprintf("%s has a zstd frame of %" PRIu64 " MiB of content, and each block is "
                             "read from where its frame begins: write smaller frames, as pzstd "
                             "does, or use gzip",
                             info->large_frame_path, info->large_frame_bytes >> 20)
            : NULL;
    if (!header && !frame) {
        return;
    }
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "%s%s%s", header ? header : "", header && frame ? "; " : "", frame ? frame : "");
    cadre_utf8_clean(text, CADRE_TEXT_SIZE_MAX, request->text);
    cadre_log(CADRE_LOG_WARN, "dataset_doubtful", "dataset=%u reason=\"%s\"", request->dataset,
              request->text);
}

/* Opens a dataset and fills in the answer for the coordinator: what it has, or why it cannot be
 * opened. */
static void
open_dataset(cadre_reader_actor_t *self, cadre_open_request_t *request)
{
    /* The coordinator may describe the dataset again, in another session: the one that is open is
     * closed first. */
    cadre_source_t *source = cadre_u64_map_take(&self->sources, request->dataset);
    cadre_source_close(&source);
    self->ahead = NULL;
    int status = open_source(self, request, &source);
    cadre_row_chunks_fini(&request->rows);
    request->ready =
        (cadre_dataset_ready_message_t){.status = (uint64_t)-status, .text = request->text};

    if (status < 0) {
        cadre_utf8_clean(cadre_error_text(), CADRE_TEXT_SIZE_MAX, request->text);
        cadre_log(CADRE_LOG_WARN, "dataset_refused", "dataset=%u status=%s reason=\"%s\"",
                  request->dataset, cadre_status_name(status), cadre_error_text());
        return;
    }

    cadre_u64_map_put(&self->sources, request->dataset, source);
    const cadre_source_info_t *info = cadre_source_info(source);
    request->resident = info->is_streamed ? NULL : source;
    request->ready.rows = (uint64_t)info->rows;
    request->ready.features = (uint64_t)info->features;
    request->ready.label_dtype = (uint64_t)info->y_dtype;
    request->ready.classes = (uint64_t)info->classes;
    request->ready.skipped = (uint64_t)info->skipped;
    request->ready.hash = info->hash;
    log_skipped(source, request->dataset);
    tell_doubts(info, request);

    cadre_log(CADRE_LOG_INFO, "dataset_open",
              "dataset=%u rows=%" PRId64 " features=%" PRId64 " skipped=%" PRId64
              " hash=%016" PRIx64,
              request->dataset, info->rows, info->features, info->skipped, info->hash);
}

/* Reads the rows of one batch, in the order that the closure's message names; the seed 0 means the
 * file's own order. */
static int
read_batch(cadre_reader_actor_t *self, const cadre_batch_rows_t *rows, cadre_loaded_batch_t *batch)
{
    cadre_source_t *source = cadre_u64_map_get(&self->sources, rows->dataset);
    if (!source) {
        return cadre_fail(CADRE_ENOTFOUND, "dataset %" PRIu64 " is not open", rows->dataset);
    }

    if (rows->first > INT64_MAX || rows->count > INT64_MAX) {
        return cadre_fail(CADRE_EINVALID, "rows %" PRIu64 " and %" PRIu64 " on do not exist",
                          rows->first, rows->count);
    }

    const cadre_batch_order_t order = {.shuffle = rows->order_seed != 0, .seed = rows->order_seed};
    const uint64_t before = cadre_source_blocks_read(source);
    int status = cadre_batch_read(source, &order, (int64_t)rows->first, (int64_t)rows->count,
                                  &batch->x, &batch->y);
    self->blocks_read += cadre_source_blocks_read(source) - before;
    if (status < 0) {
        return status;
    }
    self->ahead = source;
    self->order = order;
    self->first = (int64_t)rows->first;
    self->count = (int64_t)rows->count;
    return 0;
}

/* Reads some of what the next batches will want, while nothing else is to be done. Returns whether
 * there may be more of it. A failure shows when a batch fails. */
static bool
read_ahead(cadre_reader_actor_t *self)
{
    if (!self->ahead) {
        return false;
    }
    const bool has_read =
        cadre_batch_read_ahead(self->ahead, &self->order, self->first, self->count) > 0;
    self->blocks_read += has_read;
    self->ahead = has_read ? self->ahead : NULL;
    return has_read;
}

/* Reads all batches of a closure, up to the first that fails. */
static void
load_batches(cadre_reader_actor_t *self, cadre_load_t *load)
{
    for (size_t i = 0; i < load->count && load->status == 0; i++) {
        load->status = read_batch(self, &load->rows[i], &load->batches[i]);
    }
    if (load->status < 0) {
        cadre_utf8_clean(cadre_error_text(), CADRE_TEXT_SIZE_MAX, load->text);
    }
}

/* Carries out one message of the network actor, and sends the request back with its answer; returns
 * false for STOP. */
static bool
obey(cadre_reader_actor_t *self, void *pipe, const cadre_pipe_message_t *message)
{
    cadre_open_request_t *request = message->pointer;
    cadre_load_t *load = message->pointer;
    cadre_holding_t *holding = message->pointer;

    /* A request that cannot be sent back belongs to nobody any more: the worker is closing. */
    switch (message->kind) {
    case CADRE_READER_OPEN:
        open_dataset(self, request);
        if (cadre_pipe_send(pipe, CADRE_READER_OPEN, request) < 0) {
            cadre_open_request_destroy(&request);
        }
        return true;
    case CADRE_READER_LOAD:
        load->begin_us = cadre_clock_now_us();
        load_batches(self, load);
        load->end_us = cadre_clock_now_us();
        load->blocks_read = self->blocks_read;
        self->blocks_read = 0;
        if (cadre_pipe_send(pipe, CADRE_READER_LOAD, load) < 0) {
            cadre_load_destroy(&load);
        }
        return true;
    case CADRE_READER_RESET:
        close_sources(self);
        return true;
    case CADRE_READER_RELEASE:
        cadre_holding_destroy(&holding);
        return true;
    default:
        return false;
    }
}

/* The reader's thread: carries out messages in order, until STOP or until the context is closed. */
static void
run(void *pipe, void *argument)
{
    cadre_reader_actor_t *self = argument;
    bool stopped = false;
    while (!stopped) {
        cadre_pipe_message_t message;
        int status = cadre_pipe_receive(pipe, &message);
        if (status == CADRE_EAGAIN && !read_ahead(self)) {
            zmq_pollitem_t item = {.socket = pipe, .events = ZMQ_POLLIN};
            cadre_poll(&item, 1, -1); /* -1: without limit */
        } else if (status != CADRE_EAGAIN) {
            stopped = status < 0 || !obey(self, pipe, &message);
        }
    }

    close_sources(self);
}

/* Starts the reader's thread. Relative paths of datasets are below `folder`; with `confined` no
 * file outside it is opened. */
int
cadre_reader_actor_open(cadre_context_t *context, const char *folder, bool confined,
                        cadre_reader_actor_t **out)
{
    cadre_reader_actor_t *self = cadre_calloc(1, sizeof(*self));
    self->folder = folder ? cadre_strdup(folder) : NULL;
    self->confined = confined;
    int status = cadre_actor_open(context, "reader", run, self, &self->actor);
    if (status < 0) {
        free(self->folder);
        free(self);
        return status;
    }

    *out = self;
    return 0;
}

void *
cadre_reader_actor_socket(cadre_reader_actor_t *self)
{
    return cadre_actor_socket(self->actor);
}

/* Stops the thread and frees the actor; CADRE_ETIMEOUT, and nothing is freed, when reading a file
 * does not end in time. */
int
cadre_reader_actor_close(cadre_reader_actor_t **self_p, int timeout_ms)
{
    cadre_reader_actor_t *self = *self_p;
    if (!self) {
        return 0;
    }

    int status = cadre_actor_stop(&self->actor, timeout_ms);
    if (status < 0) {
        return status;
    }

    *self_p = NULL;
    free(self->folder);
    free(self);
    return 0;
}
