#include "worker/data/content.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    INPUT_SIZE = 256 << 10,
    OUTPUT_SIZE_MAX = 1 << 30,  /* bytes asked of zlib in one call, whose counts are 32 bits */
    GZIP_WINDOW_BITS = 15 + 16, /* the largest window; gzip's header and check, not zlib's */
    ZSTD_WINDOW_LOG_MAX = 27,   /* frames that need more memory are refused, as `zstd -d` does */
    GZIP_MAGIC_SIZE = 2,
    ZSTD_MAGIC_SIZE = 4,
    /* Content per compressed byte: zlib, "Technical Details"; a zstd block of 4 bytes may stand for
     * 128 KiB of one byte (RFC 8878, 3.1.1.2). */
    GZIP_RATIO_MAX = 1032,
    ZSTD_RATIO_MAX = 32 << 10,
};

typedef enum { KIND_UNKNOWN, KIND_PLAIN, KIND_GZIP, KIND_ZSTD } kind_t;

struct cadre_content {
    int descriptor;
    kind_t kind;    /* unknown before the first bytes are read */
    bool ended;     /* the descriptor has no more bytes */
    bool is_inside; /* of a member or frame that has begun and not ended */
    /* [INPUT_SIZE]: the bytes [start, stop) of the file are still to be decoded */
    uint8_t *input;
    size_t start;
    size_t stop;
    z_stream gzip;
    ZSTD_DCtx *zstd; /* NULL for other kinds */
};

cadre_content_t *
cadre_content_new(int descriptor)
{
    cadre_content_t *self = cadre_calloc(1, sizeof(*self));
    self->descriptor = descriptor;
    self->input = cadre_calloc(INPUT_SIZE, 1);
    return self;
}

void
cadre_content_destroy(cadre_content_t **self_p)
{
    cadre_content_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    if (self->kind == KIND_GZIP) {
        inflateEnd(&self->gzip);
    }
    ZSTD_freeDCtx(self->zstd);
    close(self->descriptor);
    free(self->input);
    free(self);
}

uint64_t
cadre_content_ratio_max(const cadre_content_t *self)
{
    switch (self->kind) {
    case KIND_PLAIN:
        return 1;
    case KIND_GZIP:
        return GZIP_RATIO_MAX;
    case KIND_UNKNOWN:
    case KIND_ZSTD:
        break;
    }
    return ZSTD_RATIO_MAX;
}

/* Reads bytes of the file as they are; `*got` is 0 at its end. */
static int
read_file(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    ssize_t count = 0;
    do {
        count = read(self->descriptor, bytes, size_bytes);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return cadre_fail(CADRE_EIO, "%s", strerror(errno));
    }
    *got = (size_t)count;
    return 0;
}

/* Reads until `wanted` bytes are there to be decoded, or the file ends. */
static int
fill(cadre_content_t *self, size_t wanted)
{
    if (self->stop - self->start >= wanted) {
        return 0;
    }
    memmove(self->input, self->input + self->start, self->stop - self->start);
    self->stop -= self->start;
    self->start = 0;
    while (!self->ended && self->stop < wanted) {
        size_t got = 0;
        int status = read_file(self, self->input + self->stop, INPUT_SIZE - self->stop, &got);
        if (status < 0) {
            return status;
        }
        self->ended = got == 0;
        self->stop += got;
    }
    return 0;
}

/* Returns whether a member begins with the next bytes. */
static bool
is_gzip(const cadre_content_t *self)
{
    const uint8_t *at = self->input + self->start;
    return self->stop - self->start >= GZIP_MAGIC_SIZE && at[0] == 0x1f && at[1] == 0x8b;
}

/* Returns whether a frame begins with the next bytes; pzstd begins with one that is skipped. */
static bool
is_zstd(const cadre_content_t *self)
{
    const uint8_t *at = self->input + self->start;
    if (self->stop - self->start < ZSTD_MAGIC_SIZE) {
        return false;
    }
    const uint32_t magic =
        at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return magic == ZSTD_MAGICNUMBER ||
           (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

static int
no_memory(void)
{
    return cadre_fail(CADRE_ETOOLARGE, "no memory to decompress it");
}

/* Finds out what the file is, and makes the decoder. */
static int
begin(cadre_content_t *self)
{
    int status = fill(self, ZSTD_MAGIC_SIZE);
    if (status < 0) {
        return status;
    }
    if (is_gzip(self)) {
        if (inflateInit2(&self->gzip, GZIP_WINDOW_BITS) != Z_OK) {
            return no_memory();
        }
        self->kind = KIND_GZIP;
    } else if (is_zstd(self)) {
        self->zstd = ZSTD_createDCtx();
        if (!self->zstd) {
            return no_memory();
        }
        ZSTD_DCtx_setParameter(self->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
        self->kind = KIND_ZSTD;
    } else {
        self->kind = KIND_PLAIN;
    }
    return 0;
}

static int
read_plain(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    const size_t left = self->stop - self->start;
    if (left == 0) {
        return read_file(self, bytes, size_bytes, got);
    }
    *got = left < size_bytes ? left : size_bytes;
    memcpy(bytes, self->input + self->start, *got);
    self->start += *got;
    return 0;
}

static int
ends_too_early(void)
{
    return cadre_fail(CADRE_EDATA, "the compressed data ends too early");
}

/* Decodes what is there of the input, by one call of zlib. */
static int
inflate_some(cadre_content_t *self)
{
    z_stream *gzip = &self->gzip;
    const unsigned room = gzip->avail_out;
    gzip->next_in = self->input + self->start;
    gzip->avail_in = (unsigned)(self->stop - self->start);
    const int code = inflate(gzip, Z_NO_FLUSH);
    self->start = self->stop - gzip->avail_in;
    self->is_inside = code != Z_STREAM_END;
    if (code == Z_NEED_DICT || code == Z_DATA_ERROR || code == Z_STREAM_ERROR) {
        return cadre_fail(CADRE_EDATA, "%s", gzip->msg ? gzip->msg : "compressed data error");
    }
    if (code == Z_MEM_ERROR) {
        return no_memory();
    }
    return self->is_inside && self->ended && gzip->avail_in == 0 && gzip->avail_out == room
               ? ends_too_early()
               : 0;
}

static int
read_gzip(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    const unsigned wanted = (unsigned)(size_bytes < OUTPUT_SIZE_MAX ? size_bytes : OUTPUT_SIZE_MAX);
    self->gzip.next_out = bytes;
    self->gzip.avail_out = wanted;
    while (self->gzip.avail_out == wanted) {
        int status = fill(self, self->is_inside ? 1 : GZIP_MAGIC_SIZE);
        if (status < 0) {
            return status;
        }
        if (!self->is_inside && !is_gzip(self)) {
            break;
        }
        if (!self->is_inside) {
            inflateReset(&self->gzip);
        }
        status = inflate_some(self);
        if (status < 0) {
            return status;
        }
    }
    *got = wanted - self->gzip.avail_out;
    return 0;
}

static int
read_zstd(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    ZSTD_outBuffer output = {.dst = bytes, .size = size_bytes};
    while (output.pos == 0) {
        int status = fill(self, 1);
        if (status < 0) {
            return status;
        }
        if (!self->is_inside && self->start == self->stop) {
            break;
        }
        ZSTD_inBuffer input = {.src = self->input, .size = self->stop, .pos = self->start};
        const size_t more = ZSTD_decompressStream(self->zstd, &output, &input);
        if (ZSTD_isError(more)) {
            return cadre_fail(CADRE_EDATA, "%s", ZSTD_getErrorName(more));
        }
        self->start = input.pos;
        self->is_inside = more > 0;
        if (self->is_inside && self->ended && self->start == self->stop && output.pos == 0) {
            return ends_too_early();
        }
    }
    *got = output.pos;
    return 0;
}

int
cadre_content_read(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    cadre_assert(size_bytes > 0);
    int status = self->kind == KIND_UNKNOWN ? begin(self) : 0;
    if (status < 0) {
        return status;
    }
    switch (self->kind) {
    case KIND_GZIP:
        return read_gzip(self, bytes, size_bytes, got);
    case KIND_ZSTD:
        return read_zstd(self, bytes, size_bytes, got);
    case KIND_UNKNOWN:
    case KIND_PLAIN:
        break;
    }
    return read_plain(self, bytes, size_bytes, got);
}
