/*
 * extent - a dimension inside a program: a number, or a number times a symbol.
 *
 * Plain data. Symbols are numbered per program (program.h); `symbols` below is that table of names.
 */
#ifndef CADRE_COMMON_GRAPH_EXTENT_H
#define CADRE_COMMON_GRAPH_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/program.h>

enum {
    CADRE_EXTENT_NO_SYMBOL = -1,
    CADRE_SYMBOLS_MAX = 8,
    CADRE_SYMBOL_SIZE_MAX = 31,
    CADRE_EXTENTS_TEXT_SIZE = 256,
};

typedef struct {
    int64_t factor; /* at least 1 */
    int symbol;     /* CADRE_EXTENT_NO_SYMBOL or an index */
} cadre_extent_t;

typedef struct {
    int rank;
    cadre_extent_t extents[CADRE_PROGRAM_RANK_MAX];
} cadre_extents_t;

/* Elements of a shape, its symbols aside. A larger one is refused where it is made. */
#define CADRE_EXTENTS_FACTOR_MAX (INT64_C(1) << 40)

cadre_extent_t cadre_extent_number(int64_t factor);
bool cadre_extent_equal(cadre_extent_t left, cadre_extent_t right);
bool cadre_extents_equal(const cadre_extents_t *left, const cadre_extents_t *right);

/* The product of the factors; CADRE_ETOOLARGE beyond CADRE_EXTENTS_FACTOR_MAX. */
int cadre_extents_factor(const cadre_extents_t *shape, int64_t *out);

/* True when both have the same number of elements whatever the symbols are. */
bool cadre_extents_same_count(const cadre_extents_t *left, const cadre_extents_t *right);

/* The shape that `left` and `right` broadcast to; false when they do not. */
bool cadre_extents_broadcast(const cadre_extents_t *left, const cadre_extents_t *right,
                             cadre_extents_t *out);

/* `shape` with its leading axes as one and its last `kept` as they are: rank `kept` + 1, of at
 * least as many axes. False when two symbols would be multiplied, or numbers beyond
 * CADRE_EXTENTS_FACTOR_MAX. */
bool cadre_extents_collapse(const cadre_extents_t *shape, int kept, cadre_extents_t *out);

/* The value of `extent` for the given symbols; CADRE_ETOOLARGE when it overflows. */
int cadre_extent_value(cadre_extent_t extent, const int64_t *symbol_values, int64_t *out);

/* "[B,512]", "[2*B,1]", "[]" into `text` of CADRE_EXTENTS_TEXT_SIZE bytes; returns `text`. */
const char *cadre_extents_text(const cadre_extents_t *shape, const char *const *symbols,
                               char *text);

#endif
