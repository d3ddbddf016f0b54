/*
 * restart_points - places of compressed files from which they can be read on.
 *
 * Owner:   the stream.
 * Thread:  one at a time.
 *
 * A member of gzip and a frame of zstd can be decoded from its begin. Within a member deflate can
 * be taken up between two blocks by who has kept the 32 KiB before (as zran.c of zlib shows);
 * within a frame of zstd nothing can. The windows are what takes memory, so there are at most
 * CADRE_RESTART_WINDOWS_MAX: when they are all in use, every second is given up, and they are twice
 * as far apart from then on.
 */
#ifndef CADRE_WORKER_DATA_RESTART_POINTS_H
#define CADRE_WORKER_DATA_RESTART_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_RESTART_WINDOW_SIZE = 32 << 10, /* of deflate (RFC 1951, 2) */
    CADRE_RESTART_WINDOWS_MAX = 2048,     /* 64 MiB */
    CADRE_RESTART_DISTANCE = 8 << 20,     /* bytes of content between windows, at first */
    CADRE_RESTART_NEAR = 1 << 20,         /* bytes of content between members or frames */
    CADRE_RESTART_FRAME = 16 << 20,       /* a frame of zstd with more content is called large */
};

typedef struct {
    size_t file;      /* number of the file */
    uint64_t content; /* offset in its content */
    uint64_t stored;  /* offset in the file, of the first whole byte that is still to be decoded */
    int bits;         /* of the byte in front of it, which are still to be decoded: 0 to 7 */
    uint8_t *window;  /* the content in front of it; NULL: a member or frame begins here */
    size_t window_size;
} cadre_restart_point_t;

typedef struct {
    cadre_restart_point_t *items; /* [count], by file and content */
    size_t count;
    size_t capacity;
    size_t windows;
    uint64_t distance;
    size_t frame_file;       /* number of the file that has the largest frame of zstd */
    uint64_t frame_size_max; /* bytes of content of that frame; 0: there is none */
} cadre_restart_points_t;

void cadre_restart_points_init(cadre_restart_points_t *self);

/* Frees what the struct owns and clears it; harmless on a zeroed one. */
void cadre_restart_points_fini(cadre_restart_points_t *self);

/* Returns whether a point is wanted here, behind all points so far: with a window, or at the begin
 * of a member or frame. */
bool cadre_restart_points_want(const cadre_restart_points_t *self, size_t file, uint64_t content,
                               bool has_window);

/* Adds a wanted point, whose window it takes. */
void cadre_restart_points_add(cadre_restart_points_t *self, const cadre_restart_point_t *point);

/* Notes that a file has a frame of zstd with so many bytes of content. */
void cadre_restart_points_note_frame(cadre_restart_points_t *self, size_t file,
                                     uint64_t size_bytes);

/* Returns the last point of the file at or in front of `content`; NULL: its begin is that. */
const cadre_restart_point_t *cadre_restart_points_find(const cadre_restart_points_t *self,
                                                       size_t file, uint64_t content);

/* Returns the memory that the points take. */
uint64_t cadre_restart_points_size_bytes(const cadre_restart_points_t *self);

#endif
