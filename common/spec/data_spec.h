/*
 * data_spec - the description of a dataset: which files, in which format, which rows of them, and
 * what a label is.
 *
 * Owner:   the caller; ended with cadre_data_spec_fini.
 * Thread:  any, one at a time.
 *
 * A worker gets it as JSON from the coordinator, hence untrusted, and `cadre` reads it from job
 * files: every key is checked for type and range, an unknown or doubled key is refused, and so is a
 * key that the format does not use.
 */
#ifndef CADRE_COMMON_SPEC_DATA_SPEC_H
#define CADRE_COMMON_SPEC_DATA_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/spec/data_column.h"

enum {
    CADRE_DATA_SPEC_SIZE_MAX = 16384,  /* bytes of JSON; longer ones are refused */
    CADRE_DATA_PATH_SIZE_MAX = 4095,   /* bytes of a path */
    CADRE_DATA_COLUMNS_MAX = 4096,     /* columns in the key "columns" */
    CADRE_DATA_FEATURES_MAX = 1 << 24, /* features of one row; more are refused */
    CADRE_SPLIT_SEED = 1,              /* default of "split_seed" */
    CADRE_DATA_CLASSES_MAX = 1 << 24,  /* a class label at or above it is a bad line */
    CADRE_SHUFFLE_BLOCKS = 16,         /* default of "shuffle_blocks" */
    CADRE_SHUFFLE_BLOCKS_MAX = 4096,
    CADRE_DATA_RANGES = 8,         /* default of "ranges", or "shuffle_blocks" where that is less */
    CADRE_DATA_RANGES_MAX = 256,   /* most ranges of an epoch */
    CADRE_STREAM_MEMORY_MIB = 512, /* default of "memory_mib" */
    CADRE_STREAM_MEMORY_MIB_MAX = 1 << 20, /* 1 TiB */
    CADRE_DATA_WORDS_MAX = 1 << 24,        /* words that have an id: exact as f32 */
    CADRE_DATA_WINDOW_MAX = 1024,          /* words before and behind one, of a text */
    CADRE_DATA_NEGATIVES_MAX = 1024, /* rows with a drawn word for each with a word of the text */
    CADRE_MIN_COUNT = 5,             /* default of "min_count" */
    CADRE_WINDOW = 5,                /* default of "window" */
    CADRE_NEGATIVES = 5,             /* default of "negatives" */
    CADRE_SAMPLE_SEED = 1,           /* default of "sample_seed" */
};

/* Largest number of rows, and of bad lines to be skipped, that a description may give. */
#define CADRE_DATA_ROWS_MAX ((int64_t)1 << 40)

/* Default of "subsample", as word2vec has it. */
#define CADRE_SUBSAMPLE 1e-3

/* Properties of a format, from which follows which keys may be used with it. */
enum {
    CADRE_DATA_COLUMNS = 1, /* rows of columns, one of them the label */
    CADRE_DATA_LINES = 2,   /* lines, one of which may be bad and the others good */
    CADRE_DATA_SPARSE = 4,  /* the last features may be in no row, so their number can be given */
    CADRE_DATA_LABELS_FILE = 8, /* the labels are in a file of their own */
    CADRE_DATA_HASHED = 16,     /* words become ids by a hash */
    CADRE_DATA_WORDS = 32,      /* rows are made of a text's words */
    CADRE_DATA_KEYED = 64,      /* ids may be keys of 64 bits, in all rows */
};

/* The formats. Columns: name, word, properties. worker/data/reader.h declares a reader for each. */
#define CADRE_DATA_FORMAT_LIST(X)                                                                  \
    X(CSV, csv, CADRE_DATA_COLUMNS | CADRE_DATA_LINES)                                             \
    X(LIBSVM, libsvm, CADRE_DATA_SPARSE | CADRE_DATA_LINES | CADRE_DATA_KEYED)                     \
    X(IDX, idx, CADRE_DATA_LABELS_FILE)                                                            \
    X(NPY, npy, CADRE_DATA_LABELS_FILE)                                                            \
    X(CRITEO, criteo, CADRE_DATA_LINES | CADRE_DATA_HASHED | CADRE_DATA_KEYED)                     \
    X(TEXT, text, CADRE_DATA_WORDS)

typedef enum {
#define ROW(NAME, ...) CADRE_DATA_##NAME,
    CADRE_DATA_FORMAT_LIST(ROW)
#undef ROW
} cadre_data_format_t;

/* The kinds of labels: a class number (i32, from 0), one of two classes (f32, 0 or 1; the file has
 * 0/1 or -1/+1), any finite number (f32). Columns: name, word. */
#define CADRE_LABEL_KIND_LIST(X)                                                                   \
    X(CLASS, class)                                                                                \
    X(BINARY, binary)                                                                              \
    X(VALUE, value)

typedef enum {
#define ROW(NAME, ...) CADRE_LABEL_##NAME,
    CADRE_LABEL_KIND_LIST(ROW)
#undef ROW
} cadre_label_kind_t;

enum {
#define ROW(...) +1
    CADRE_DATA_FORMAT_COUNT = 0 CADRE_DATA_FORMAT_LIST(ROW),
    CADRE_LABEL_KIND_COUNT = 0 CADRE_LABEL_KIND_LIST(ROW),
#undef ROW
};

#define CADRE_DATA_FORMAT_WORD(NAME, word, has) "|" #word
#define CADRE_LABEL_KIND_WORD(NAME, word)       "|" #word

/* The words of a list in its order: "csv|libsvm|idx" and "class|binary|value". */
#define CADRE_DATA_FORMAT_WORDS (&CADRE_DATA_FORMAT_LIST(CADRE_DATA_FORMAT_WORD)[1])
#define CADRE_LABEL_KIND_WORDS  (&CADRE_LABEL_KIND_LIST(CADRE_LABEL_KIND_WORD)[1])

typedef enum { CADRE_HEADER_AUTO, CADRE_HEADER_YES, CADRE_HEADER_NO } cadre_csv_header_t;

/* Which CSV column is the label. */
typedef enum {
    CADRE_LABEL_AT_LAST,
    CADRE_LABEL_AT_FIRST,
    CADRE_LABEL_AT_INDEX,
    CADRE_LABEL_AT_NAME,
} cadre_label_at_t;

/* Paths of files, at least one where there are any; each may be a pattern. */
typedef struct {
    char **items;
    size_t count;
} cadre_data_paths_t;

typedef struct {
    cadre_data_format_t format;
    cadre_data_paths_t paths; /* of files; a relative one is below a folder that the reader knows */
    cadre_data_paths_t labels_paths; /* of the files of labels, for idx and npy; else none */
    cadre_label_kind_t label_kind;
    int64_t classes;           /* number of classes; 0: found in the file */
    double scale;              /* every feature is multiplied by it */
    int64_t first_row;         /* first row of the part to use, counted in good rows from 0 */
    int64_t rows;              /* rows of that part; 0: all up to the end of the file */
    double held_out;           /* fraction of the part's rows that is held out; 0: none */
    bool has_part;             /* "part" was given */
    bool use_held_out;         /* the dataset is the held-out rows; else the other rows */
    int64_t split_seed;        /* decides which rows are held out */
    int64_t skip_bad;          /* csv, libsvm: so many bad lines may be skipped */
    bool is_streamed;          /* rows are read again in each epoch, not held in memory */
    int64_t shuffle_blocks;    /* streamed: blocks whose rows are shuffled at a time */
    int64_t ranges;            /* streamed: parts of an epoch that go on side by side */
    int64_t memory_mib;        /* streamed: memory that blocks may take */
    int64_t features;          /* libsvm: features of a row; 0: found in the file */
    int64_t items;             /* libsvm: pairs of index and value in a row; 0: rows are dense */
    int64_t buckets;           /* criteo: ids of each column of words */
    bool has_keys;             /* criteo: words are keys of 64 bits; libsvm: indices of items are */
    int64_t vocabulary;        /* this and the next five are for text: most words with an id */
    int64_t min_count;         /* words that are there less often have none */
    double subsample;          /* share of a text from which on a word is thinned out; 0: none is */
    int64_t window;            /* words before and behind one that make rows with it, at most */
    int64_t negatives;         /* rows with a drawn word for each with a word of the text */
    int64_t sample_seed;       /* of all that is drawn */
    cadre_label_at_t label_at; /* which column is the label; this and all below are for csv */
    int64_t label_index;       /* column, from 0, with CADRE_LABEL_AT_INDEX */
    cadre_data_column_t *columns; /* [column_count] the features, in this order */
    size_t column_count;          /* 0: all columns but the label */
    char *label_name;             /* name of the column, with CADRE_LABEL_AT_NAME; else NULL */
    cadre_csv_header_t header;
    char delimiter;
} cadre_data_spec_t;

/* Reads the JSON object in `length` bytes of `text`:
 *
 *   "format"       a word of CADRE_DATA_FORMAT_LIST; required
 *   "path"         file, plain, gzip or zstd (found out from its first bytes); a pattern with * ?
 *                  or [] for several, in the order of their names; or a list of both. Required
 *   "labels_path"  idx, npy, required: the files with the labels, as many as those of "path"
 *   "label"        csv: "last" (default), "first", the name of a column, or its number from 0
 *   "columns"      csv: the columns that are features, in that order, each as data_column.h says;
 *                  the others may hold anything. Default: all but the label
 *   "header"       csv: true, false or "auto" (default: the first row, when it has names in it)
 *   "delimiter"    csv: one of , ; | : "tab" (or a tab) and "space" (or one); default ,
 *   "features"     libsvm: features of a row; default: the largest index in the file
 *   "items"        libsvm, with "features" or "keys": a row is so many indices, then as many
 *                  values; a line with fewer is filled up with index 0 and value 0. Default: dense
 *                  rows
 *   "buckets"      criteo, required: words become ids from 1 to so many - 1, 0 where there is none
 *   "keys"         criteo, in the place of "buckets": true: words become keys of 64 bits; libsvm,
 *                  with "items", in the place of "features": indices are such keys
 *   "vocabulary"   text, required: the most frequent words have ids from 0, so many at most
 *   "min_count"    text: words that are there less often have no id and are left out; default 5
 *   "subsample"    text: words with a larger share than this are thinned out; default 0.001
 *   "window"       text: how far two words of a row are apart at most; default 5
 *   "negatives"    text: rows with label 0 for each with label 1; default 5
 *   "sample_seed"  text: another number draws other rows; default 1
 *   "label_kind"   a word of CADRE_LABEL_KIND_LIST; default "class"; of text "binary"
 *   "classes"      with "class": labels are below it; default: the largest label + 1
 *   "scale"        every feature is multiplied by it; default 1
 *   "first_row", "rows"  the part of the file to use; default: all rows
 *   "held_out"     a fraction of those rows, above 0 and below 1, drawn at random and set aside
 *   "part"         with "held_out", required: "held_out" for the rows set aside, "rest" for the
 *                  others
 *   "split_seed"   with "held_out": another number draws other rows; default 1
 *   "skip_bad"     csv, libsvm: how many bad lines to skip; default 0
 *   "streaming"    true: rows are not held in memory, but read again in each epoch; default false
 *   "shuffle_blocks"  with "streaming": how many blocks of 4096 rows a shuffle takes together;
 *                  default 16
 *   "ranges"       with "streaming": into how many ranges, each for one worker, an epoch is divided
 *                  (data_ranges.h), at most "shuffle_blocks"; default 8, or as many as may be
 *   "memory_mib"   with "streaming": how much of what was read is kept; default 512
 *
 * Fails with CADRE_ECONFIG and a text that names the key. */
int cadre_data_spec_decode(const char *text, size_t length, cadre_data_spec_t *out);

/* Frees what the struct owns and clears it; harmless on a zeroed one. */
void cadre_data_spec_fini(cadre_data_spec_t *self);

/* Finds the format with the word `text` (may be NULL); false when there is none. */
bool cadre_data_format_find(const char *text, cadre_data_format_t *out);

/* Returns whether the format has a property, one of CADRE_DATA_COLUMNS and so on. */
bool cadre_data_format_has(cadre_data_format_t format, int what);

#endif
