/*
 * stream - the rows of files that are larger than memory.
 *
 * Owner:   the source.
 * Thread:  one at a time, as reading changes what is held.
 *
 * Opening reads all files once and keeps no rows, but an index: of every CADRE_BLOCK_ROWS rows
 * where they begin and a hash of them. Reading a row reads its block again, and holds it with
 * others that were read lately, up to a limit. A block that has another hash than before is
 * refused, so a file that changes under a job is found when it matters.
 *
 * Memory is that limit, one block more while it is read, some 20 bytes of index for a block, the
 * restart points of compressed files, and a line.
 */
#ifndef CADRE_WORKER_DATA_STREAM_H
#define CADRE_WORKER_DATA_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/data/label.h"
#include "worker/data/reader.h"
#include "worker/data/row_split.h"

typedef struct cadre_stream cadre_stream_t;

/* Reads all files of the reader, which was made with cadre_calloc and which it takes: nulled also
 * on failure. Bad lines are counted in the reader's `bad`, whose reader is not needed afterwards.
 * Blocks may take `size_bytes_max`. Fails as cadre_source_open; with CADRE_ETOOLARGE when a window
 * of blocks does not fit, too. */
int cadre_stream_open(cadre_reader_t **reader_p, uint64_t size_bytes_max, cadre_stream_t **out);

/* Closes and nulls the pointer; NULL inside is fine. */
void cadre_stream_close(cadre_stream_t **self_p);

const cadre_reader_t *cadre_stream_reader(const cadre_stream_t *self);

int64_t cadre_stream_rows(const cadre_stream_t *self);        /* of the asked part */
int64_t cadre_stream_file_rows(const cadre_stream_t *self);   /* good ones of all files */
uint64_t cadre_stream_hash(const cadre_stream_t *self);       /* as cadre_row_store_hash */
uint64_t cadre_stream_size_bytes(const cadre_stream_t *self); /* of blocks and index */

/* Returns the name of the file with the largest frame of zstd, and its bytes of content, if that
 * is a large one: a block within it is read from the begin of the frame; else NULL. The stream owns
 * the name. */
const char *cadre_stream_large_frame(const cadre_stream_t *self, uint64_t *size_bytes);

/* Makes block `block` one that is held. Returns 1 when it had to be read, 0 when it was there;
 * fails with CADRE_EDATA when it is not what it was, CADRE_ENOTFOUND when the file is gone and has
 * to be opened: where blocks follow one another in compressed data, it is open still. */
int cadre_stream_load(cadre_stream_t *self, int64_t block);

/* Notes that a batch is read from now on: blocks are held by when a batch wanted them last. */
void cadre_stream_begin_batch(cadre_stream_t *self);

/* Notes that no further batch is expected to want a block: it is the first to be dropped. */
void cadre_stream_release(cadre_stream_t *self, int64_t block);

/* Returns whether the block is held. */
bool cadre_stream_holds(const cadre_stream_t *self, int64_t block);

/* Returns whether one block more fits beside those that batches have wanted lately. */
bool cadre_stream_has_room(const cadre_stream_t *self);

/* Returns how many blocks were read so far, those of the index left out. */
uint64_t cadre_stream_blocks_read(const cadre_stream_t *self);

/* Copies row `row`, which must exist, as cadre_row_store_read; fails as cadre_stream_load. */
int cadre_stream_read(cadre_stream_t *self, int64_t row, float *x, cadre_label_t *label);

#endif
