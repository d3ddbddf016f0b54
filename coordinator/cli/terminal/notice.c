#include "coordinator/cli/terminal/notice.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

typedef struct queued {
    struct queued *next;
    size_t size_bytes;     /* size of the notice in `bytes` */
    unsigned char bytes[]; /* the notice, up to the end of its text */
} queued_t;

struct cadre_notices {
    pthread_mutex_t lock; /* guards `first`, `last_p`, `count` and `dropped` */
    int fd;               /* an eventfd, readable while notices are queued */
    queued_t *first;      /* oldest notice; the list is owned */
    queued_t **last_p;    /* where the pointer to the next notice is stored */
    size_t count;
    uint64_t dropped; /* notices dropped since the last "lost" event */
};

/* Opens an empty queue of notices, with an eventfd by which the main thread is woken. */
int
cadre_notices_open(cadre_notices_t **notices)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return cadre_fail(CADRE_EIO, "eventfd: %s", strerror(errno));
    }

    cadre_notices_t *self = cadre_calloc(1, sizeof(*self));
    pthread_mutex_init(&self->lock, NULL);
    self->fd = fd;
    self->last_p = &self->first;
    *notices = self;
    return 0;
}

/* Frees the queue with the notices that nobody has received. */
void
cadre_notices_close(cadre_notices_t **notices_p)
{
    cadre_notices_t *self = *notices_p;
    if (!self) {
        return;
    }

    while (self->first) {
        queued_t *next = self->first->next;
        free(self->first);
        self->first = next;
    }

    close(self->fd);
    pthread_mutex_destroy(&self->lock);
    cadre_free(notices_p);
}

int
cadre_notices_fd(const cadre_notices_t *self)
{
    return self->fd;
}

/* --- sending --- */

/* Copies a notice, up to the end of its text, to the end of the queue, and wakes the receiver. The
 * caller holds the lock. */
static void
keep(cadre_notices_t *self, const cadre_notice_t *notice)
{
    size_t text_size = strnlen(notice->text, CADRE_NOTICE_TEXT_SIZE - 1) + 1;
    size_t size_bytes = offsetof(cadre_notice_t, text) + text_size;
    queued_t *queued = cadre_calloc(1, sizeof(*queued) + size_bytes);

    queued->next = NULL;
    queued->size_bytes = size_bytes;
    memcpy(queued->bytes, notice, size_bytes);
    *self->last_p = queued;
    self->last_p = &queued->next;
    self->count++;
    eventfd_write(self->fd, 1);
}

/* Returns how many notices may be queued before one of this kind is dropped. Progress is dropped
 * early, as the next one is newer; DONE never. */
static size_t
room_for(cadre_notice_kind_t kind)
{
    if (kind == CADRE_NOTICE_DONE) {
        return SIZE_MAX;
    }

    return kind == CADRE_NOTICE_PROGRESS ? CADRE_NOTICES_PROGRESS_MAX : CADRE_NOTICES_MAX;
}

/* Queues a notice for the main thread. Without room it is dropped and counted; progress is not
 * counted, as newer progress follows. */
void
cadre_notice_send(cadre_notices_t *self, const cadre_notice_t *notice)
{
    pthread_mutex_lock(&self->lock);
    if (self->count < room_for(notice->kind)) {
        keep(self, notice);
    } else {
        self->dropped += notice->kind != CADRE_NOTICE_PROGRESS;
    }
    pthread_mutex_unlock(&self->lock);
}

/* Queues a notice of this kind with a formatted text. */
void
cadre_notice_say(cadre_notices_t *self, cadre_notice_kind_t kind, const char *format, ...)
{
    cadre_notice_t notice = {.kind = kind, .level = 'I'};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(notice.text, sizeof(notice.text), format, arguments);
    va_end(arguments);
    cadre_notice_send(self, &notice);
}

void
cadre_notice_log(void *notices, char level, const char *event, const char *pairs)
{
    cadre_notice_t notice = {.kind = CADRE_NOTICE_LOG, .level = level};
    snprintf(notice.event, sizeof(notice.event), "%s", event);
    snprintf(notice.text, sizeof(notice.text), "%s", pairs);
    cadre_notice_send(notices, &notice);
}

void
cadre_notice_begin_wait(cadre_notices_t *self, int64_t limit_ms, const char *what)
{
    cadre_notice_t notice = {.kind = CADRE_NOTICE_WAIT, .limit_ms = limit_ms};
    snprintf(notice.text, sizeof(notice.text), "%s", what);
    cadre_notice_send(self, &notice);
}

void
cadre_notice_end_wait(cadre_notices_t *self)
{
    cadre_notice_say(self, CADRE_NOTICE_WAITED, "%s", "");
}

/* --- receiving --- */

/* Takes the oldest notice out of the queue, which must not be empty. The caller holds the lock. */
static void
take(cadre_notices_t *self, cadre_notice_t *notice)
{
    queued_t *queued = self->first;
    *notice = (cadre_notice_t){0};
    memcpy(notice, queued->bytes, queued->size_bytes);
    self->first = queued->next;
    if (!self->first) {
        self->last_p = &self->first;
    }
    self->count--;
    free(queued);
}

/* Takes the oldest notice. When none is left but some were dropped, makes an event "events_lost"
 * that says how many. Returns whether there is a notice. */
bool
cadre_notice_receive(cadre_notices_t *self, cadre_notice_t *notice)
{
    bool is_there = true;
    pthread_mutex_lock(&self->lock);
    if (self->first) {
        take(self, notice);
    } else if (self->dropped > 0) {
        *notice = (cadre_notice_t){.kind = CADRE_NOTICE_LOG, .level = 'W', .event = "events_lost"};
        snprintf(notice->text, sizeof(notice->text), "count=%" PRIu64, self->dropped);
        self->dropped = 0;
    } else {
        /* The queue is empty: the descriptor is not readable until the next notice. */
        eventfd_t woken;
        eventfd_read(self->fd, &woken);
        is_there = false;
    }

    pthread_mutex_unlock(&self->lock);
    return is_there;
}
