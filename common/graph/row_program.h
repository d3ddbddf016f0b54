/*
 * row_program - a program over some rows of its variables, made of one over whole variables.
 *
 * The two compute the same, bit for bit, as far as ids are in range and nothing is added up over
 * rows: such a sum, the norm of a gradient, has the same terms but for zeros, which a device may
 * group, and so round, otherwise. A variable that is only looked up (row_sets.h) has, in the row
 * program, as many rows as the symbol `cadre_program_rows_symbol` stands for, and what is looked up
 * in it is named by positions among these, which are further arguments, of i32 also where ids are
 * i64. Nothing else changes: variables, pushes, results and the arguments of the program keep their
 * numbers. Whoever runs it finds the ids first, by the id program, makes a list of them without
 * duplicates for each set, and pulls and pushes the rows of that list. Rows beyond the list are
 * padding, at which no position points: what they hold, which must be finite where rows are added
 * up, changes nothing but themselves.
 *
 * Owner:   whoever made it. Thread: never changes once made.
 */
#ifndef CADRE_COMMON_GRAPH_ROW_PROGRAM_H
#define CADRE_COMMON_GRAPH_ROW_PROGRAM_H

#include "common/graph/row_sets.h"

/* Where the ids of a lookup come from. */
typedef struct {
    int argument; /* the program's argument that they are; -1: they are computed */
    int result;   /* the result of the id program that they are; -1: an argument */
} cadre_row_ids_t;

typedef struct {
    cadre_program_t *program; /* over rows; its arguments are those of the whole program, and then
                                 the positions of each lookup */
    cadre_program_t *ids;     /* the id program, which takes the arguments of the whole program and
                                 gives the ids that are computed; NULL: none are */
    cadre_row_sets_t sets;
    int *variables;           /* [variables]: the set whose rows a variable has; -1: it is whole */
    cadre_row_ids_t *sources; /* [sets.lookup_count] */
    int argument_count;       /* of the whole program: the number of the first positions */
} cadre_row_program_t;

/* Makes the row program of a finished program. may[i]: variable i may be pulled and pushed by
 * rows. `*out` is NULL when no variable is to be: none is only looked up, or the row program would
 * be beyond a limit of programs. Fails with a status of cadre_program_finish. */
int cadre_row_program_new(const cadre_program_t *program, const bool *may,
                          cadre_row_program_t **out);
void cadre_row_program_destroy(cadre_row_program_t **self_p);

#endif
