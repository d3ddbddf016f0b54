#include "worker/slot/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    HOLD_US = 1000000,   /* how long an event may wait for others before it is written */
    LINE_SIZE_MAX = 256, /* characters of one event, with the comma before it */
    META_LINES_MAX = 4,  /* names of process, reader and slot, and the note on dropped events */
    TEXT_SIZE = (CADRE_TRACE_LANE_EVENTS + META_LINES_MAX) * LINE_SIZE_MAX,
    NO_WORKER = -1,
};

static const char closing[] = "\n]\n";

struct cadre_trace_lane {
    cadre_trace_t *trace;
    uint32_t slot;
    int64_t
        /* Worker index under which this lane is named in the file; NO_WORKER: not yet named. */
        worker;
    int64_t flushed_us;
    size_t count;
    cadre_trace_event_t events[CADRE_TRACE_LANE_EVENTS];
};

struct cadre_trace {
    const char *path;
    uint32_t slots;
    uint64_t events_max;
    cadre_trace_lane_t *lanes; /* [slots] */

    pthread_mutex_t lock; /* guards all fields below */
    int fd;
    off_t end;      /* offset of the closing bracket */
    bool begun;     /* the file has events, so that the next one needs a comma */
    int64_t worker; /* worker index that the file names; NO_WORKER: none yet */
    uint64_t events;
    uint64_t dropped;
    uint64_t unwritten; /* events in `text` */
    int error;          /* errno of the write that failed, after which nothing is written */
    char text[TEXT_SIZE];
    size_t text_size;
};

/* --- the file --- */

/* Writes all bytes at the offset `at` of the file; false on failure, with errno. */
static bool
write_all(int fd, const char *bytes, size_t size_bytes, off_t at)
{
    while (size_bytes > 0) {
        ssize_t written = pwrite(fd, bytes, size_bytes, at);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno; /* a write of 0 bytes sets no errno */
            return false;
        }
        bytes += written;
        at += written;
        size_bytes -= (size_t)written;
    }

    return true;
}

/* Adds a formatted line, one JSON object, to the lines that are still to be written, with a comma
 * before it unless it is the file's first. */
__attribute__((format(printf, 2, 3))) static void
add_line(cadre_trace_t *self, const char *format, ...)
{
    char *at = self->text + self->text_size;
    size_t room = TEXT_SIZE - self->text_size;
    int comma = snprintf(at, room, self->begun ? ",\n" : "\n");
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(at + comma, room - (size_t)comma, format, arguments);
    va_end(arguments);
    cadre_assert(length > 0 && comma + length < LINE_SIZE_MAX);
    self->text_size += (size_t)(comma + length);
    self->begun = true;
}

/* Writes the collected lines and a closing bracket with one call. If that fails half-way the file
 * is cut back to the events before, and closed by a bracket again. */
static void
write_lines(cadre_trace_t *self)
{
    size_t size_bytes = self->text_size;
    self->text_size = 0;
    if (size_bytes == 0 || self->error) {
        return;
    }

    cadre_assert(size_bytes + sizeof(closing) <= TEXT_SIZE);
    memcpy(self->text + size_bytes, closing, sizeof(closing) - 1);
    if (!write_all(self->fd, self->text, size_bytes + sizeof(closing) - 1, self->end)) {
        self->error = errno;
        self->dropped += self->unwritten;
        if (ftruncate(self->fd, self->end) == 0) {
            write_all(self->fd, closing, sizeof(closing) - 1, self->end);
        }
        return;
    }

    self->unwritten = 0;
    self->end += (off_t)size_bytes;
}

/* Adds the lines that name this worker's process, its reader and the slot, once for each index of
 * the worker: another session may give it another one. */
static void
add_names(cadre_trace_t *self, cadre_trace_lane_t *lane, uint32_t worker)
{
    if (self->worker != worker) {
        self->worker = worker;
        add_line(self,
                 "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%" PRIu32
                 ",\"args\":{\"name\":\"worker %" PRIu32 "\"}}",
                 worker, worker);
        add_line(self,
                 "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
                 ",\"args\":{\"name\":\"reader\"}}",
                 worker, self->slots);
    }

    if (lane->worker != worker) {
        lane->worker = worker;
        add_line(self,
                 "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
                 ",\"args\":{\"name\":\"slot %" PRIu32 "\"}}",
                 worker, lane->slot, lane->slot);
    }
}

/* Adds an event to the lines that are still to be written, or counts it as dropped once the file
 * has events_max events or cannot be written. */
static void
add_event(cadre_trace_t *self, cadre_trace_lane_t *lane, const cadre_trace_event_t *event)
{
    static const char *const names[] = {[CADRE_TRACE_WAIT] = "wait",
                                        [CADRE_TRACE_BATCH] = "batch",
                                        [CADRE_TRACE_PULL] = "pull",
                                        [CADRE_TRACE_COMPUTE] = "compute",
                                        [CADRE_TRACE_PUSH] = "push"};
    if (self->error || self->events == self->events_max) {
        self->dropped++;
        return;
    }

    self->events++;
    self->unwritten++;
    add_names(self, lane, event->worker);
    add_line(self,
             "{\"name\":\"%s\",\"cat\":\"cadre\",\"ph\":\"X\",\"ts\":%" PRId64 ",\"dur\":%" PRId64
             ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"args\":{\"closure\":%" PRIu64
             ",\"attempt\":%" PRIu64 ",\"bytes\":%" PRIu64 "}}",
             names[event->kind], event->begin_us, event->end_us - event->begin_us, event->worker,
             /* Batches were read on the reader's thread, whose number is behind the slots'. */
             event->kind == CADRE_TRACE_BATCH ? self->slots : lane->slot, event->closure,
             event->attempt, event->size_bytes);
}

/* --- called by slots --- */

/* Writes the events that the lane holds to the file. */
void
cadre_trace_flush(cadre_trace_lane_t *self)
{
    if (!self || self->count == 0) {
        return;
    }

    cadre_trace_t *trace = self->trace;
    pthread_mutex_lock(&trace->lock);
    for (size_t i = 0; i < self->count; i++) {
        add_event(trace, self, &self->events[i]);
        /* The next event may add a line for itself and for each name. */
        if (trace->text_size > TEXT_SIZE - (META_LINES_MAX + 1) * LINE_SIZE_MAX) {
            write_lines(trace);
        }
    }

    write_lines(trace);
    pthread_mutex_unlock(&trace->lock);
    self->flushed_us = self->events[self->count - 1].end_us;
    self->count = 0;
}

/* Adds an event to the lane. The lane is written when it is full, or when the last writing is
 * HOLD_US ago; NULL: there is no trace. */
void
cadre_trace_add(cadre_trace_lane_t *self, const cadre_trace_event_t *event)
{
    if (!self) {
        return;
    }
    self->events[self->count++] = *event;
    if (self->count == CADRE_TRACE_LANE_EVENTS || event->end_us - self->flushed_us >= HOLD_US) {
        cadre_trace_flush(self);
    }
}

cadre_trace_lane_t *
cadre_trace_lane(cadre_trace_t *self, uint32_t slot)
{
    return self ? &self->lanes[slot] : NULL;
}

/* --- opening and closing --- */

static int
fail_file(const char *path, int error)
{
    return cadre_fail(CADRE_EIO, "trace file %s: %s", path, strerror(error));
}

/* Checks that a trace could be written to `path`. A file that exists stays as it is, and one that
 * was made for the check is removed. */
int
cadre_trace_check(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool made = fd >= 0;
    if (!made && errno == EEXIST) {
        /* O_NONBLOCK: opening a FIFO must not wait for a reader. */
        fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    }
    if (fd < 0) {
        return fail_file(path, errno);
    }

    close(fd);
    if (made) {
        unlink(path);
    }

    return 0;
}

/* Creates or replaces the trace file, with a lane for each slot. */
int
cadre_trace_open(const char *path, uint32_t slots, uint64_t events_max, cadre_trace_t **out)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || !write_all(fd, "[\n]\n", 4, 0)) {
        int status = fail_file(path, errno);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }

    cadre_trace_t *self = cadre_calloc(1, sizeof(*self));
    self->path = path;
    self->slots = slots;
    self->events_max = events_max;
    self->fd = fd;
    self->end = 1; /* lines go between the brackets, so that the file is JSON at any time */
    self->worker = NO_WORKER;
    self->lanes = cadre_calloc(slots, sizeof(*self->lanes));
    for (uint32_t i = 0; i < slots; i++) {
        self->lanes[i].trace = self;
        self->lanes[i].slot = i;
        self->lanes[i].worker = NO_WORKER;
    }

    pthread_mutex_init(&self->lock, NULL);
    *out = self;
    return 0;
}

uint64_t
cadre_trace_dropped(cadre_trace_t *self)
{
    pthread_mutex_lock(&self->lock);
    uint64_t dropped = self->dropped;
    pthread_mutex_unlock(&self->lock);
    return dropped;
}

/* Writes what the lanes still hold, and closes the file. Fails when some event could not be
 * written, now or earlier. */
int
cadre_trace_close(cadre_trace_t **self_p)
{
    cadre_trace_t *self = *self_p;
    if (!self) {
        return 0;
    }

    *self_p = NULL;
    for (uint32_t i = 0; i < self->slots; i++) {
        cadre_trace_flush(&self->lanes[i]);
    }

    /* A reader of the trace must see that it is incomplete. No lock: no slot records any more. */
    if (self->dropped > 0) {
        add_line(self,
                 "{\"name\":\"dropped\",\"cat\":\"cadre\",\"ph\":\"M\",\"pid\":%" PRId64
                 ",\"args\":{\"events\":%" PRIu64 "}}",
                 self->worker == NO_WORKER ? 0 : self->worker, self->dropped);
        write_lines(self);
    }

    int status = 0;
    if (self->error) {
        status = fail_file(self->path, self->error);
    }

    pthread_mutex_destroy(&self->lock);
    close(self->fd);
    free(self->lanes);
    free(self);
    return status;
}
