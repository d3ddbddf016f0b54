/*
 * row_store - parsed rows as compact arrays.
 *
 * Owner:   the source.
 * Thread:  one at a time while rows are added; immutable and readable by all after finish.
 *
 * Rows are added in file order. All are counted; only those of the part that the job asks for are
 * kept.
 *
 * A sparse row is read as one float for each of its features or, with "items" in the description,
 * as that many indices from 1 and then as many values: zeros fill up a row with fewer.
 */
#ifndef CADRE_WORKER_DATA_ROW_STORE_H
#define CADRE_WORKER_DATA_ROW_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "worker/data/label.h"

typedef enum {
    CADRE_ROWS_F32,   /* features floats */
    CADRE_ROWS_U8,    /* features bytes, scaled when read */
    CADRE_ROWS_SPARSE /* pairs of column and float */
} cadre_row_kind_t;

typedef struct {
    uint32_t column;
    float value;
} cadre_sparse_item_t;

typedef struct cadre_row_store cadre_row_store_t;

/* Returns an empty store of at most `size_bytes_max` bytes, for the part of the file and the scale
 * that `spec` names. A sparse store learns its features in cadre_row_store_finish only. */
cadre_row_store_t *cadre_row_store_new(cadre_row_kind_t kind, const cadre_data_spec_t *spec,
                                       int64_t features, uint64_t size_bytes_max);

/* Frees and nulls the pointer; NULL inside is fine. */
void cadre_row_store_destroy(cadre_row_store_t **self_p);

/* Adds a row: `features` floats (already scaled) or bytes, or `count` items with ascending columns.
 * CADRE_ETOOLARGE beyond the limit. */
int cadre_row_store_add(cadre_row_store_t *self, const void *x, cadre_label_t label);
int cadre_row_store_add_sparse(cadre_row_store_t *self, const cadre_sparse_item_t *items,
                               size_t count, cadre_label_t label);

/* Fails with CADRE_ETOOLARGE when `file_rows` more rows would exceed the limit: for formats that
 * tell the number of rows at the begin of the file. */
int cadre_row_store_check_size(const cadre_row_store_t *self, int64_t file_rows);

/* Ends the adding of rows, and gives back spare memory. Fails with CADRE_EDATA when there are no
 * rows, or too few for the asked part. */
int cadre_row_store_finish(cadre_row_store_t *self, int64_t features);

cadre_row_kind_t cadre_row_store_kind(const cadre_row_store_t *self);
int64_t cadre_row_store_rows(const cadre_row_store_t *self);      /* kept */
int64_t cadre_row_store_file_rows(const cadre_row_store_t *self); /* seen */
uint64_t cadre_row_store_size_bytes(const cadre_row_store_t *self);

/* Drops the kept rows, not their memory; how many were seen stays. */
void cadre_row_store_clear(cadre_row_store_t *self);

/* Returns a hash of all kept rows and labels, which is equal for equal numbers, also on other
 * machines. Reads all rows. */
uint64_t cadre_row_store_hash(const cadre_row_store_t *self);

/* The hash of rows that are in several stores, one after the other: that of one store with all. */
typedef struct cadre_row_hash cadre_row_hash_t;

cadre_row_hash_t *cadre_row_hash_new(void);

/* Frees and nulls the pointer; NULL inside is fine. */
void cadre_row_hash_destroy(cadre_row_hash_t **self_p);

/* Adds the rows of a store. */
void cadre_row_hash_add(cadre_row_hash_t *self, const cadre_row_store_t *store);

/* Returns the hash of the rows that were added, of so many features. */
uint64_t cadre_row_hash_end(const cadre_row_hash_t *self, int64_t features);

/* Copies row `row`, which must exist: `x` gets `features` floats; two for each of the items, where
 * the description has these. */
void cadre_row_store_read(const cadre_row_store_t *self, int64_t row, float *x,
                          cadre_label_t *label);

#endif
