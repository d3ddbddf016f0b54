/*
 * data_file - the content of a plain or compressed file, as lines or as bytes.
 *
 * Owner:   the reader that opened it.
 * Thread:  one at a time.
 *
 * Whether and how a file is compressed follows from its first bytes (content.h). A file is read
 * either by lines or by bytes, not by both. Content is never held whole.
 */
#ifndef CADRE_WORKER_DATA_DATA_FILE_H
#define CADRE_WORKER_DATA_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/restart_points.h"

enum {
    CADRE_DATA_LINE_SIZE_MAX = 16 << 20, /* bytes of a line; a longer one is refused */
    CADRE_DATA_CHECK_SIZE_MAX = 1 << 30, /* bytes of content that a search for damage reads */
};

typedef struct cadre_data_file cadre_data_file_t;

/* Opens a regular file; reading fails with CADRE_ETOOLARGE after `size_bytes_max` of content. Fails
 * with CADRE_ENOTFOUND, and the reason, when the file cannot be opened. With a `root` (else NULL) a
 * file that is not in that folder or below, after all links are followed, is refused with
 * CADRE_EREFUSED. */
int cadre_data_file_open(const char *path, const char *root, uint64_t size_bytes_max,
                         cadre_data_file_t **out);

/* Returns `path` without the folder `root` in front, be that named as given or with all links
 * resolved; any other path as it is. */
const char *cadre_data_file_below(const char *root, const char *path);

/* Closes and nulls the pointer; NULL inside is fine. */
void cadre_data_file_close(cadre_data_file_t **self_p);

const char *cadre_data_file_path(const cadre_data_file_t *self);

/* Gives the next line without its LF or CR LF; valid until the next call. Returns 1; 0 at the end
 * of the file (a last line needs no LF). Fails with CADRE_EDATA for damaged compression or a line
 * that is too long, and with CADRE_EIO. */
int cadre_data_file_line(cadre_data_file_t *self, const char **line, size_t *length);

/* Returns the number of the line that was handed out last, from 1. */
int64_t cadre_data_file_line_number(const cadre_data_file_t *self);

/* Reads `size_bytes` bytes, or fewer at the end of the file; `*got` says how many. Fails as
 * cadre_data_file_line. */
int cadre_data_file_read(cadre_data_file_t *self, void *bytes, size_t size_bytes, size_t *got);

/* Reads what is left of a compressed file, CADRE_DATA_CHECK_SIZE_MAX of content at most, which then
 * cannot be had any more. Fails as cadre_data_file_read where it is damaged; 0 where no damage was
 * found, and for a plain file. */
int cadre_data_file_check_rest(cadre_data_file_t *self);

/* Has points added from which the file, number `file`, can be read on: cadre_content_note. */
void cadre_data_file_note(cadre_data_file_t *self, cadre_restart_points_t *points, size_t file);

/* Goes to a place that cadre_data_file_offset and cadre_data_file_line_number have told of this
 * file: from the nearest of the points (may be NULL), or on from where it is, where that is nearer.
 * Fails as cadre_data_file_read. */
int cadre_data_file_seek(cadre_data_file_t *self, const cadre_restart_points_t *points, size_t file,
                         uint64_t offset, int64_t line_number);

/* Returns whether such a place is reached soonest from where the file is: cadre_content_is_near. */
bool cadre_data_file_is_near(const cadre_data_file_t *self, const cadre_restart_points_t *points,
                             size_t file, uint64_t offset);

/* Returns how many bytes of content were handed out, or skipped: where in it the next are. */
uint64_t cadre_data_file_offset(const cadre_data_file_t *self);

/* Returns the most content that the file can have, given its size on disk. With it a short file
 * whose header promises many rows is refused before memory is allocated for them. */
uint64_t cadre_data_file_content_max(const cadre_data_file_t *self);

#endif
