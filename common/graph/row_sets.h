/*
 * row_sets - which variables of a program are only looked up, and by which ids.
 *
 * A value is *row-wise* if its row r follows from row r of variables alone, or is a sum of what a
 * scatter or bag_grad adds to row r: a variable, such a sum, and functions of single elements of
 * these. A variable is *looked up* if every row-wise value that it is part of is only read by take,
 * bag and bag_grad, or pushed, and the ids of all these depend on no variable. Its other rows can
 * then change neither what the program computes nor, since a pushed value must be zero where no id
 * points, the variable. Variables that meet in a row-wise value need the same rows: they share a
 * set of ids.
 *
 * A row-wise value that is zero where no id points, as a gradient is, may be added up over all its
 * rows too: the norm of a gradient is that of the rows that it is about.
 *
 * Anything else that reads a row-wise value, such as a penalty on a whole table, leaves the
 * variables in it whole.
 *
 * Owner:   whoever found them. Thread: any one.
 */
#ifndef CADRE_COMMON_GRAPH_ROW_SETS_H
#define CADRE_COMMON_GRAPH_ROW_SETS_H

#include "common/graph/program.h"

/* Ids by which rows of a set are read. */
typedef struct {
    int set;
    int32_t index; /* the node that the ids are */
    cadre_op_t op; /* one that reads rows at them, for error texts */
    bool pads;     /* -1 stands for no row: all that read rows at them are bags */
} cadre_row_lookup_t;

typedef struct {
    int32_t *sets; /* [nodes]: the set that a row-wise node is of; -1: none */
    bool *sums;    /* [nodes]: of a row-wise node, or of one in its group, all rows are added up:
                      which they are, and their order, decide how that rounds */
    int64_t *rows; /* [count]: the rows of a whole variable of the set, which its ids are below */
    int count;     /* of sets */
    cadre_row_lookup_t *lookups; /* [lookup_count], those of a set side by side */
    int lookup_count;
} cadre_row_sets_t;

/* Finds the sets of ids of a finished program. may[i]: variable i may be pulled and pushed by rows.
 * Sets that would need more than `lookups_max` lookups together are left out: their variables stay
 * whole. The caller ends it with cadre_row_sets_fini, which is harmless on zeroed memory. */
void cadre_row_sets_init(cadre_row_sets_t *self, const cadre_program_t *program, const bool *may,
                         int lookups_max);
void cadre_row_sets_fini(cadre_row_sets_t *self);

#endif
