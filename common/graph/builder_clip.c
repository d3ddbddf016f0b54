/*
 * builder_clip - operations of a program that clip gradients by value or norm before the push; each
 * is built of a few element-wise operations and sums.
 */
#include <math.h>

#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

/* Returns whether `norm` is a number above 0; if not, notes a mistake of the call `what`. */
static bool
is_norm(cadre_program_t *self, const char *what, float norm)
{
    bool fits = isfinite(norm) && norm > 0;
    if (!fits) {
        cadre_program_mistake(
            self,
            cadre_fail(CADRE_EINVALID, "%s: the norm must be above 0, not %g", what, (double)norm));
    }
    return fits;
}

static cadre_node_t
sum_of_squares(cadre_program_t *self, cadre_node_t x)
{
    return cadre_op_sum_all(self, cadre_op_square(self, x));
}

/* Returns the factor that shortens a vector of length `length` to `norm`, and leaves a shorter one
 * as it is: norm / max(length, norm). */
static cadre_node_t
factor(cadre_program_t *self, cadre_node_t length, float norm)
{
    cadre_node_t limit = cadre_op_const_f32(self, norm);
    return cadre_op_div(self, limit, cadre_op_max(self, length, limit));
}

/* Moves each element into [low, high]. NaN as a limit is refused. */
cadre_node_t
cadre_op_clip_by_value(cadre_program_t *self, cadre_node_t x, float low, float high)
{
    if (!(low <= high)) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID, "clip by value: %g is not up to %g",
                                               (double)low, (double)high));
        return none;
    }
    cadre_node_t above = cadre_op_max(self, x, cadre_op_const_f32(self, low));
    return cadre_op_min(self, above, cadre_op_const_f32(self, high));
}

/* Scales `x` down to length `norm` if it is longer. */
cadre_node_t
cadre_op_clip_by_norm(cadre_program_t *self, cadre_node_t x, float norm)
{
    if (!is_norm(self, "clip by norm", norm)) {
        return none;
    }
    cadre_node_t length = cadre_op_sqrt(self, sum_of_squares(self, x));
    return cadre_op_mul(self, x, factor(self, length, norm));
}

/* Scales all nodes by one factor, so that the length of all their elements together is at most
 * `norm`. Writes over `nodes`; returns the length before. */
cadre_node_t
cadre_op_clip_by_global_norm(cadre_program_t *self, cadre_node_t *nodes, int count, float norm)
{
    if (!is_norm(self, "clip by global norm", norm)) {
        return none;
    }
    if (count < 1) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID, "clip by global norm: of no nodes"));
        return none;
    }

    cadre_node_t sum = sum_of_squares(self, nodes[0]);
    for (int i = 1; i < count; i++) {
        sum = cadre_op_add(self, sum, sum_of_squares(self, nodes[i]));
    }
    cadre_node_t length = cadre_op_sqrt(self, sum);
    cadre_node_t shorter = factor(self, length, norm);
    for (int i = 0; i < count; i++) {
        nodes[i] = cadre_op_mul(self, nodes[i], shorter);
    }
    return length;
}
