#include "worker/data/content.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    RAW_WINDOW_BITS = -15,      /* neither header nor check: what is between them */
    GZIP_CHECK_SIZE = 8,        /* behind a member: check and size (RFC 1952) */
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
    uint64_t read_bytes;            /* offset in the file of what follows the input */
    uint64_t offset;                /* offset in the content of what is read next */
    uint64_t frame;                 /* zstd: where in the content its frame begins */
    cadre_restart_points_t *points; /* where to note points; NULL: nowhere */
    size_t file;                    /* number of this file in them */
    bool is_raw;                    /* gzip: the member was entered behind its header */
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
    self->read_bytes += *got;
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

/* Returns the offset in the file of what is decoded next. */
static uint64_t
stored_offset(const cadre_content_t *self)
{
    return self->read_bytes - (self->stop - self->start);
}

static int
ends_too_early(const cadre_content_t *self)
{
    /* A file that was cut since its points were noted ends in front of the one that was gone to. */
    struct stat file;
    const bool is_cut =
        fstat(self->descriptor, &file) == 0 && (uint64_t)file.st_size < self->read_bytes;
    return cadre_fail(CADRE_EDATA,
                      "the compressed data ends too early, at byte %" PRIu64 " of the file",
                      is_cut ? (uint64_t)file.st_size : self->read_bytes);
}

/* Fails for what a decoder says of its input when it was given what begins at byte `stored`. Where
 * in it that is, it cannot say; and a checksum comes behind what is wrong. */
static int
fail_decoder(uint64_t stored, const char *reason)
{
    return cadre_fail(CADRE_EDATA,
                      "in the compressed data, found out behind byte %" PRIu64 " of the file: %s",
                      stored, reason);
}

static int
fail_behind(const cadre_content_t *self)
{
    return cadre_fail(CADRE_EDATA,
                      "behind the compressed data, at byte %" PRIu64
                      " of the file, there is something else",
                      stored_offset(self));
}

/* Notes that a member or frame begins here. */
static void
note_begin(cadre_content_t *self)
{
    if (self->points && cadre_restart_points_want(self->points, self->file, self->offset, false)) {
        cadre_restart_points_add(self->points,
                                 &(cadre_restart_point_t){.file = self->file,
                                                          .content = self->offset,
                                                          .stored = stored_offset(self)});
    }
}

/* Notes a place between two blocks of deflate, if that is where zlib has stopped: at `content`. */
static void
note_block(cadre_content_t *self, uint64_t content)
{
    enum { BLOCK_ENDS = 128, IN_LAST_BLOCK = 64, BITS = 7 }; /* of data_type (zlib.h, inflate) */
    const int state = self->gzip.data_type;
    if (!self->points || !(state & BLOCK_ENDS) || state & IN_LAST_BLOCK ||
        !cadre_restart_points_want(self->points, self->file, content, true)) {
        return;
    }
    cadre_restart_point_t point = {.file = self->file,
                                   .content = content,
                                   .stored = stored_offset(self),
                                   .bits = state & BITS,
                                   .window = cadre_calloc(CADRE_RESTART_WINDOW_SIZE, 1)};
    unsigned size = CADRE_RESTART_WINDOW_SIZE;
    inflateGetDictionary(&self->gzip, point.window, &size);
    point.window_size = size;
    cadre_restart_points_add(self->points, &point);
}

/* Decodes what is there of the input, by one call of zlib; `*content` is where the output begins,
 * and then where it ends. */
static int
inflate_some(cadre_content_t *self, uint64_t *content)
{
    z_stream *gzip = &self->gzip;
    const uint64_t stored = stored_offset(self);
    const unsigned room = gzip->avail_out;
    gzip->next_in = self->input + self->start;
    gzip->avail_in = (unsigned)(self->stop - self->start);
    const int code = inflate(gzip, self->points ? Z_BLOCK : Z_NO_FLUSH);
    self->start = self->stop - gzip->avail_in;
    self->is_inside = code != Z_STREAM_END;
    *content += room - gzip->avail_out;
    if (code == Z_NEED_DICT || code == Z_DATA_ERROR || code == Z_STREAM_ERROR) {
        return fail_decoder(stored, gzip->msg ? gzip->msg : "it is damaged");
    }
    if (code == Z_MEM_ERROR) {
        return no_memory();
    }
    if (code == Z_BUF_ERROR && self->ended) {
        return ends_too_early(self);
    }
    if (self->is_inside) {
        note_block(self, *content);
    }
    return 0;
}

/* Skips what is behind a member that zlib takes for raw data. */
static int
end_raw(cadre_content_t *self)
{
    self->is_raw = false;
    int status = fill(self, GZIP_CHECK_SIZE);
    if (status < 0) {
        return status;
    }
    if (self->stop - self->start < GZIP_CHECK_SIZE) {
        return ends_too_early(self);
    }
    self->start += GZIP_CHECK_SIZE;
    return 0;
}

/* Reads what is behind the last member: zeros fill up a block of a tape, anything else is no
 * content that may be left out in silence. */
static int
end_members(cadre_content_t *self)
{
    int status = 0;
    while (self->start < self->stop && self->input[self->start] == 0 && status == 0) {
        self->start++;
        status = fill(self, 1);
    }
    return status < 0 || self->start == self->stop ? status : fail_behind(self);
}

static int
read_gzip(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    const unsigned wanted = (unsigned)(size_bytes < OUTPUT_SIZE_MAX ? size_bytes : OUTPUT_SIZE_MAX);
    uint64_t content = self->offset;
    self->gzip.next_out = bytes;
    self->gzip.avail_out = wanted;
    while (self->gzip.avail_out == wanted) {
        int status = fill(self, self->is_inside ? 1 : GZIP_MAGIC_SIZE);
        if (status < 0) {
            return status;
        }
        if (!self->is_inside && !is_gzip(self)) {
            status = end_members(self);
            if (status < 0) {
                return status;
            }
            break;
        }
        if (!self->is_inside) {
            note_begin(self);
            inflateReset2(&self->gzip, GZIP_WINDOW_BITS);
        }
        status = inflate_some(self, &content);
        if (status == 0 && self->is_raw && !self->is_inside) {
            status = end_raw(self);
        }
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
        int status = fill(self, self->is_inside ? 1 : ZSTD_MAGIC_SIZE);
        if (status < 0) {
            return status;
        }
        if (!self->is_inside && self->start == self->stop) {
            break;
        }
        if (!self->is_inside && !is_zstd(self)) {
            return fail_behind(self);
        }
        if (!self->is_inside) {
            note_begin(self);
            self->frame = self->offset;
        }
        ZSTD_inBuffer input = {.src = self->input, .size = self->stop, .pos = self->start};
        const size_t more = ZSTD_decompressStream(self->zstd, &output, &input);
        if (ZSTD_isError(more)) {
            return fail_decoder(stored_offset(self), ZSTD_getErrorName(more));
        }
        self->start = input.pos;
        self->is_inside = more > 0;
        if (!self->is_inside && self->points) {
            cadre_restart_points_note_frame(self->points, self->file,
                                            self->offset + output.pos - self->frame);
        }
        if (self->is_inside && self->ended && self->start == self->stop && output.pos == 0) {
            return ends_too_early(self);
        }
    }
    *got = output.pos;
    return 0;
}

static int
read_kind(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got)
{
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

int
cadre_content_read(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    cadre_assert(size_bytes > 0);
    int status = self->kind == KIND_UNKNOWN ? begin(self) : 0;
    if (status == 0) {
        status = read_kind(self, bytes, size_bytes, got);
    }
    if (status < 0) {
        return status;
    }
    self->offset += *got;
    return 0;
}

void
cadre_content_note(cadre_content_t *self, cadre_restart_points_t *points, size_t file)
{
    self->points = points;
    self->file = file;
}

/* Goes to an offset of the file itself, and forgets what is left of the input. */
static int
go_to_stored(cadre_content_t *self, uint64_t stored)
{
    if (lseek(self->descriptor, (off_t)stored, SEEK_SET) < 0) {
        return cadre_fail(CADRE_EIO, "%s", strerror(errno));
    }
    self->start = 0;
    self->stop = 0;
    self->read_bytes = stored;
    self->ended = false;
    self->is_inside = false;
    self->is_raw = false;
    return 0;
}

/* Takes up a member of gzip between two of its blocks. */
static int
enter_block(cadre_content_t *self, const cadre_restart_point_t *point)
{
    int status = go_to_stored(self, point->stored - (point->bits > 0));
    if (status == 0 && point->bits > 0) {
        status = fill(self, 1);
    }
    if (status < 0) {
        return status;
    }
    inflateReset2(&self->gzip, RAW_WINDOW_BITS);
    if (point->bits > 0) {
        if (self->start == self->stop) {
            return ends_too_early(self);
        }
        inflatePrime(&self->gzip, point->bits, self->input[self->start++] >> (8 - point->bits));
    }
    inflateSetDictionary(&self->gzip, point->window, (unsigned)point->window_size);
    self->is_inside = true;
    self->is_raw = true;
    return 0;
}

/* Goes to the nearest place in front of `offset` at which a decoder can begin. */
static int
enter(cadre_content_t *self, const cadre_restart_point_t *point)
{
    const cadre_restart_point_t begin_of_file = {0};
    point = point ? point : &begin_of_file;
    self->offset = point->content;
    if (self->zstd) {
        ZSTD_DCtx_reset(self->zstd, ZSTD_reset_session_only);
    }
    return self->kind == KIND_GZIP && point->window ? enter_block(self, point)
                                                    : go_to_stored(self, point->stored);
}

/* Decodes content, and drops it, up to `offset`. */
static int
skip_to(cadre_content_t *self, uint64_t offset)
{
    cadre_auto(cadre_free) uint8_t *bytes = cadre_calloc(INPUT_SIZE, 1);
    while (self->offset < offset) {
        const uint64_t left = offset - self->offset;
        size_t got = 0;
        int status =
            cadre_content_read(self, bytes, left < INPUT_SIZE ? (size_t)left : INPUT_SIZE, &got);
        if (status < 0) {
            return status;
        }
        if (got == 0) {
            return cadre_fail(CADRE_EDATA, "its content ends before byte %" PRIu64, offset);
        }
    }
    return 0;
}

bool
cadre_content_is_near(const cadre_content_t *self, const cadre_restart_points_t *points,
                      size_t file, uint64_t offset)
{
    if (self->kind == KIND_PLAIN || self->kind == KIND_UNKNOWN || self->offset > offset) {
        return false;
    }
    const cadre_restart_point_t *point =
        points ? cadre_restart_points_find(points, file, offset) : NULL;
    return !point || point->content <= self->offset;
}

int
cadre_content_seek(cadre_content_t *self, const cadre_restart_points_t *points, size_t file,
                   uint64_t offset)
{
    self->points = NULL;
    int status = self->kind == KIND_UNKNOWN ? begin(self) : 0;
    if (status < 0) {
        return status;
    }
    if (self->kind == KIND_PLAIN) {
        self->offset = offset;
        return go_to_stored(self, offset);
    }
    if (!cadre_content_is_near(self, points, file, offset)) {
        status = enter(self, points ? cadre_restart_points_find(points, file, offset) : NULL);
    }
    return status < 0 ? status : skip_to(self, offset);
}
