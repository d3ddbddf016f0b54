/*
 * content - the bytes of an open file, uncompressed: of a plain file, gzip or zstd.
 *
 * Owner:   the data file.
 * Thread:  one at a time.
 *
 * Which of them follows from the first bytes of the file, not from its name. A gzip file may have
 * several members, a zstd file several frames: their contents follow on one another. Bytes behind
 * the last of them are an error, but for zeros behind a member.
 */
#ifndef CADRE_WORKER_DATA_CONTENT_H
#define CADRE_WORKER_DATA_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/restart_points.h"

typedef struct cadre_content cadre_content_t;

/* Returns the content of an open file, whose descriptor it takes and closes. */
cadre_content_t *cadre_content_new(int descriptor);

/* Closes the file and nulls the pointer; NULL inside is fine. */
void cadre_content_destroy(cadre_content_t **self_p);

/* Reads some bytes, at most `size_bytes`, which is above 0; `*got` says how many: 0 at the end
 * alone. Fails with CADRE_EDATA and the bare reason for damaged compression, CADRE_EIO, and
 * CADRE_ETOOLARGE when the decoder gets no memory. */
int cadre_content_read(cadre_content_t *self, void *bytes, size_t size_bytes, size_t *got);

/* Has points added from which the file, which is number `file`, can be read on. They are the
 * caller's and outlive the content, or this is called with NULL. */
void cadre_content_note(cadre_content_t *self, cadre_restart_points_t *points, size_t file);

/* Goes to a place of the content: from the nearest point in front of it, or from the begin
 * (`points` may be NULL); from where it is, where that is nearer. Nothing is noted from then on.
 * Fails as cadre_content_read, and with CADRE_EDATA when the content ends before. */
int cadre_content_seek(cadre_content_t *self, const cadre_restart_points_t *points, size_t file,
                       uint64_t offset);

/* Returns whether a decoder comes to `offset` soonest by going on from where it is. False of a
 * plain file, which goes to any place at once. */
bool cadre_content_is_near(const cadre_content_t *self, const cadre_restart_points_t *points,
                           size_t file, uint64_t offset);

/* Returns how many bytes of content a byte of the file can become at most. */
uint64_t cadre_content_ratio_max(const cadre_content_t *self);

#endif
