#include "tests/chaos/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/memory.h"

enum { THROTTLE_PARTS = 20 /* of what a second allows, at once */ };

void
stream_init(stream_t *self)
{
    *self = (stream_t){.blocks = cadre_calloc(STREAM_BLOCKS, sizeof(*self->blocks))};
}

void
stream_fini(stream_t *self)
{
    free(self->blocks);
    self->blocks = NULL;
}

bool
stream_wants_input(const stream_t *self, const stream_rule_t *rule)
{
    return !rule->stalled && !self->ended && self->count < STREAM_BLOCKS;
}

/* When what it holds may go on: the end goes like a byte. */
static int64_t
ready_ms(const stream_t *self)
{
    if (self->count == 0) {
        return self->ended && !self->passed_on ? 0 : INT64_MAX;
    }
    int64_t due_ms = self->blocks[self->first].due_ms;
    return due_ms > self->free_ms ? due_ms : self->free_ms;
}

bool
stream_wants_output(const stream_t *self, const stream_rule_t *rule, int64_t now_ms)
{
    return !rule->stalled && ready_ms(self) <= now_ms;
}

int64_t
stream_due_ms(const stream_t *self, const stream_rule_t *rule, int64_t now_ms)
{
    int64_t due_ms = ready_ms(self);
    return rule->stalled || due_ms <= now_ms ? INT64_MAX : due_ms;
}

bool
stream_read(stream_t *self, int fd, const stream_rule_t *rule, int64_t now_ms)
{
    stream_block_t *block = &self->blocks[(self->first + self->count) % STREAM_BLOCKS];
    ssize_t got = read(fd, block->bytes, sizeof(block->bytes));
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    if (got == 0) {
        self->ended = true;
        return true;
    }
    block->size = (size_t)got;
    block->written = 0;
    block->due_ms = rule->delay_ms ? now_ms + rule->delay_ms : 0;
    self->count++;
    return true;
}

bool
stream_write(stream_t *self, int fd, const stream_rule_t *rule, int64_t now_ms)
{
    if (self->count == 0) {
        self->passed_on = true;
        shutdown(fd, SHUT_WR);
        return true;
    }
    stream_block_t *block = &self->blocks[self->first];
    size_t most = block->size - block->written;
    if (rule->bytes_per_second > 0) {
        size_t allowed = (size_t)(rule->bytes_per_second / THROTTLE_PARTS) + 1;
        most = most < allowed ? most : allowed;
    }
    ssize_t sent = send(fd, block->bytes + block->written, most, MSG_NOSIGNAL);
    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    block->written += (size_t)sent;
    if (rule->bytes_per_second > 0) {
        self->free_ms = now_ms + sent * 1000 / rule->bytes_per_second;
    }
    if (block->written == block->size) {
        self->first = (self->first + 1) % STREAM_BLOCKS;
        self->count--;
    }
    return true;
}
