/*
 * rows - rows of variables, read and assigned without the others.
 *
 *     const int64_t ids[] = {70001, 3, 70001};
 *     cadre_tensor_t rows = {0};
 *     s = cadre_variable_read_rows(table, ids, 3, &rows, -1);
 *     ...
 *     s = cadre_variable_assign_rows(table, CADRE_VARIABLE_SET, ids, 3, &rows, -1);
 *     cadre_tensor_fini(&rows);
 *
 * A row is what one index of axis 0 names: of a variable of shape [n, d] so many numbers d, of one
 * of shape [n] a single number. Each ps is asked for its rows alone, all of its partitions in one
 * message where that holds them, and touches nothing else. Names, errors, waiting and threads are
 * as <cadre/coordinator.h> says.
 */
#ifndef CADRE_ROWS_H
#define CADRE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/coordinator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads rows `ids` [count] into `rows`, in their order: a tensor of the variable's dtype and of
 * shape [count, then the variable's without its first dimension], which the caller ends with
 * cadre_tensor_fini. `rows` is an empty tensor, {0}, or a used one, whose memory is freed; on an
 * error it stays as it was. An id may stand in `ids` several times. Each row is of one version;
 * while closures run, rows may be of different ones. At most 67,108,864 ids.
 *
 * CADRE_EINVALID: an id is not a row of the variable, or there is none; the error names it and its
 *   place in `ids`.
 * CADRE_ESHAPE: the variable is a scalar.
 * CADRE_ETOOLARGE: there are more ids than that. */
CADRE_API int cadre_variable_read_rows(cadre_variable_t *self, const int64_t *ids, size_t count,
                                       cadre_tensor_t *rows, int64_t timeout_ms);

/* Reads rows of a slot of the variable's optimizer, such as Adam's "momentum" (<cadre/variable.h>,
 * cadre_variable_read_slot), as cadre_variable_read_rows reads rows of the values; f32.
 *
 * CADRE_ENOTFOUND: the optimizer has no such slot; the error names those that it has. */
CADRE_API int cadre_variable_read_slot_rows(cadre_variable_t *self, const char *slot,
                                            const int64_t *ids, size_t count, cadre_tensor_t *rows,
                                            int64_t timeout_ms);

/* Reads `count` rows from row `first` on, as cadre_variable_read_rows does.
 *
 * CADRE_EINVALID: they are not all rows of the variable, or `count` is 0. */
CADRE_API int cadre_variable_read_slice(cadre_variable_t *self, int64_t first, size_t count,
                                        cadre_tensor_t *rows, int64_t timeout_ms);

/* Reads rows start, start + step, start + 2 step and so on, up to and without stop, as
 * cadre_variable_read_rows does: a Python slice of axis 0. Of a variable of n rows a negative
 * number counts from the end: -1 is row n - 1. With a negative step rows are read backwards, and
 * -n - 1 as `stop` is before row 0, so that row 0 is the last one.
 *
 * CADRE_EINVALID: `start` is not in -n..n-1, `stop` not in -n..n (step above 0) or -n-1..n-1 (below
 *   0), `step` is 0, or there is no row. Nothing is cut to what there is. */
CADRE_API int cadre_variable_read_range(cadre_variable_t *self, int64_t start, int64_t stop,
                                        int64_t step, cadre_tensor_t *rows, int64_t timeout_ms);

/* Assigns to rows `ids` [count] by `mode`, exactly once: row i of `rows`, a tensor of the
 * variable's dtype and of the shape that cadre_variable_read_rows gives, belongs to ids[i]. An id
 * that stands there several times is changed as often, in the order of `ids`: the last one set
 * stays, and all that is added or multiplied counts. Rows of one ps are assigned at once, as far as
 * one message holds them (4 MiB, 65,536 rows, 192 partitions); an update of a closure comes before
 * or after. Checkpoints hold the assigned rows, and a ps that is lost gets them back, as with
 * cadre_variable_assign, which also says what it waits for; optimizer slots stay as they are.
 *
 * CADRE_EINVALID, CADRE_ESHAPE, CADRE_ETOOLARGE: as cadre_variable_read_rows; CADRE_ESHAPE also for
 *   rows of another shape.
 * CADRE_EDTYPE: the rows have another dtype than the variable.
 * CADRE_EINVALID: also where it divides by 0. Nothing is assigned.
 * CADRE_ENOTFINITE: a row holds infinity or NaN; the error names its place in `ids`. Nothing is
 *   assigned.
 * CADRE_ETIMEOUT, CADRE_EINTERRUPTED: nothing is taken back: the assignment is made as soon as its
 *   shards are there, and must not be repeated. */
CADRE_API int cadre_variable_assign_rows(cadre_variable_t *self, cadre_assign_t mode,
                                         const int64_t *ids, size_t count,
                                         const cadre_tensor_t *rows, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
