/*
 * data_column - a column of a file that is a feature, and which numbers of a row it becomes.
 *
 * A column holds a number, which is one of the row; or words, whose hash is an id; or several ids
 * or words between separators, a bag: so many ids, and then as many weights. An id that is a key of
 * 64 bits is three numbers of the row, its lowest bits first, since an f32 holds 24 of them.
 *
 * Owner:   whoever read it; ended with cadre_data_column_fini.
 * Thread:  any, one at a time.
 */
#ifndef CADRE_COMMON_SPEC_DATA_COLUMN_H
#define CADRE_COMMON_SPEC_DATA_COLUMN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CADRE_DATA_COLUMN_MAX = 1 << 24,  /* number of a column, from 0 */
    CADRE_DATA_BUCKETS_MAX = 1 << 24, /* ids of one column of words: exact as f32 */
    CADRE_DATA_ITEMS_MAX = 1 << 16,   /* ids of one row, in a column or with "items" */
};

/* What an id is that is a key of a table, with all 64 bits. Columns: name, word. */
#define CADRE_DATA_KEY_LIST(X)                                                                     \
    X(ID, id)     /* a whole number */                                                             \
    X(WORD, word) /* a word, of which the hash is the key */

typedef enum {
    CADRE_DATA_KEY_NONE, /* it is an id below CADRE_DATA_BUCKETS_MAX */
#define ROW(NAME, word) CADRE_DATA_KEY_##NAME,
    CADRE_DATA_KEY_LIST(ROW)
#undef ROW
} cadre_data_key_t;

/* Where no separator is given. */
#define CADRE_DATA_SEPARATOR '|'

struct json_t; /* of jansson.h */

typedef struct {
    char *name;           /* NULL: it is named by `index` */
    int64_t index;        /* number of the column, from 0 */
    cadre_data_key_t key; /* its ids are keys */
    int64_t buckets;   /* its words are ids from 1 to so many - 1 by a hash; 0: it holds numbers */
    int64_t hash_seed; /* of the hash: another one gives other ids to words */
    int64_t items;     /* it holds several ids, so many at most; 0: one number, or one word */
    char separator;    /* between two of them */
    bool is_weighted;  /* each may have a weight, behind a colon */
} cadre_data_column_t;

/* Reads a column: its name, its number from 0, or an object
 *
 *   "column"     its name or number; required
 *   "hash"       it holds words, each of which becomes an id from 1 to so many - 1; 0 where there
 *                is none
 *   "key"        its ids are keys of 64 bits, in three numbers each: "id", whole numbers from -2^63
 *                to 2^64 - 1; "word", words by their hash, 0 where there is none
 *   "hash_seed"  of words: those of columns with another one have other ids; default 0
 *   "items"      it holds several ids or words, so many at most: the row has so many ids, then as
 *                many weights; 0 and 0 fill up a row with fewer
 *   "separator"  with "items": the character between two of them; default |
 *   "weights"    with "items": true: an id or word may have a weight behind a colon; default 1
 *
 * Fails with CADRE_ECONFIG and a text that names the key. */
int cadre_data_column_read(const struct json_t *value, cadre_data_column_t *out);

/* Frees the name and clears the struct. */
void cadre_data_column_fini(cadre_data_column_t *self);

/* Returns how many numbers of a row an id of the column becomes: 1, or CADRE_KEY_PARTS
 * (<cadre/program.h>). */
int64_t cadre_data_column_id_width(const cadre_data_column_t *self);

/* Returns how many numbers of a row the column becomes. */
int64_t cadre_data_column_width(const cadre_data_column_t *self);

/* Writes a key of 64 bits as the numbers of a row that cadre_op_key (<cadre/program.h>) reads:
 * x[CADRE_KEY_PARTS]. */
void cadre_data_column_write_key(uint64_t key, float *x);

/* Returns whether it holds anything but one number: text may be in it. */
bool cadre_data_column_has_words(const cadre_data_column_t *self);

#endif
