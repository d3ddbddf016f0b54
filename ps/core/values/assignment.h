/*
 * assignment - what an ASSIGN does to values: sets them, or computes them from what they were and
 * from the values that it brings.
 *
 * Owner:   nobody: it has no state. Thread: any one.
 *
 * Integers wrap around, as the optimizer `add` has them do; they are divided toward zero. A number
 * that values are divided by must not be 0: the shard refuses it before.
 */
#ifndef CADRE_PS_CORE_VALUES_ASSIGNMENT_H
#define CADRE_PS_CORE_VALUES_ASSIGNMENT_H

#include <stddef.h>

#include "common/tensor/tensor.h"
#include "common/wire/message.h"

/* Writes to `out` what becomes of `count` values at `in`, which may be the same place, by the
 * numbers of the ASSIGN, which may begin at any address and were checked. */
void cadre_assignment_apply(cadre_assign_mode_t mode, cadre_dtype_t dtype, const void *numbers,
                            const void *in, void *out, size_t count);

#endif
