#include "worker/slot/id_origin.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"

enum { STEPS_MAX = 1024 }; /* nodes that a search looks at */

typedef struct {
    const cadre_program_t *program;
    const int64_t *symbol_values;
    int steps;
    int argument;
    int64_t at;
} search_t;

typedef struct {
    int rank;
    int64_t shape[CADRE_PROGRAM_RANK_MAX];
    int64_t index[CADRE_PROGRAM_RANK_MAX]; /* one for each axis */
} place_t;

/* Gives a place the shape of a node, and the element at a position of its memory. */
static bool
set_place(const search_t *self, int32_t node, int64_t position, place_t *out)
{
    out->rank = cadre_program_node(self->program, node)->shape.rank;
    if (cadre_program_node_shape(self->program, node, self->symbol_values, out->shape) < 0) {
        return false;
    }
    for (int i = out->rank - 1; i >= 0; i--) {
        if (out->shape[i] < 1) {
            return false;
        }
        out->index[i] = position % out->shape[i];
        position /= out->shape[i];
    }
    return position == 0;
}

/* Returns the position of a place in memory. */
static int64_t
position_of(const place_t *place)
{
    int64_t position = 0;
    for (int i = 0; i < place->rank; i++) {
        position = position * place->shape[i] + place->index[i];
    }
    return position;
}

/* Gives the place of an input that is broadcast to the result: axes are aligned at the last. */
static void
unbroadcast(const place_t *result, place_t *input)
{
    for (int i = 0; i < input->rank; i++) {
        const int64_t index = result->index[result->rank - input->rank + i];
        input->index[i] = input->shape[i] == 1 ? 0 : index;
    }
}

/* Gives the place in input `number` from which an element of the node at `place` was computed;
 * false when it was not from one of this input, or not from one alone. */
static bool
step(const search_t *self, const cadre_program_node_t *node, const place_t *place, int number,
     place_t *input)
{
    if (!set_place(self, node->inputs[number], 0, input)) {
        return false;
    }
    const int axis = (int)node->attributes[CADRE_AXIS];
    switch (node->op) {
    case CADRE_OP_RESHAPE:
    case CADRE_OP_DETACH:
    case CADRE_OP_CAST:
        return set_place(self, node->inputs[number], position_of(place), input);
    case CADRE_OP_MAP1:
    case CADRE_OP_MAP2:
    case CADRE_OP_WHERE:
    case CADRE_OP_BROADCAST:
        unbroadcast(place, input);
        return true;
    case CADRE_OP_TRANSPOSE:
        for (int i = 0; i < place->rank; i++) {
            input->index[node->attributes[i]] = place->index[i];
        }
        return true;
    case CADRE_OP_SLICE: {
        const int64_t whole =
            cadre_program_node(self->program, node->inputs[0])->shape.extents[axis].factor;
        memcpy(input->index, place->index, sizeof(input->index));
        /* the begin is in units of the axis' symbol */
        input->index[axis] += node->attributes[CADRE_SLICE_BEGIN] * (input->shape[axis] / whole);
        return true;
    }
    case CADRE_OP_CONCAT:
        memcpy(input->index, place->index, sizeof(input->index));
        for (int i = 0; i < number; i++) {
            place_t before;
            if (!set_place(self, node->inputs[i], 0, &before)) {
                return false;
            }
            input->index[axis] -= before.shape[axis];
        }
        return input->index[axis] >= 0 && input->index[axis] < input->shape[axis];
    default:
        return false;
    }
}

/* Looks for an argument above a node; inputs are smaller than the node, so it ends. */
static bool
search(search_t *self, int32_t index, const place_t *place)
{
    const cadre_program_node_t *node = cadre_program_node(self->program, index);
    if (node->op == CADRE_OP_ARG) {
        self->argument = (int)node->attributes[CADRE_LEAF_INDEX];
        self->at = position_of(place);
        return true;
    }
    for (int i = 0; i < node->input_count && self->steps < STEPS_MAX; i++) {
        place_t input;
        self->steps++;
        if (step(self, node, place, i, &input) && search(self, node->inputs[i], &input)) {
            return true;
        }
    }
    return false;
}

bool
cadre_id_origin_find(const cadre_program_t *program, const int64_t *symbol_values, int32_t node,
                     int64_t index, int *argument, int64_t *at)
{
    search_t self = {.program = program, .symbol_values = symbol_values};
    place_t place;
    if (!set_place(&self, node, index, &place) || !search(&self, node, &place)) {
        return false;
    }
    *argument = self.argument;
    *at = self.at;
    return true;
}

/* Returns the place of the first id that is no row; the number of ids when all are. */
static int64_t
first_bad(const cadre_row_lookup_t *lookup, const cadre_tensor_t *ids, int64_t rows)
{
    const int32_t *data = ids->data;
    const int64_t count = cadre_tensor_count(ids);
    const int32_t low = lookup->pads ? -1 : 0;
    int64_t i = 0;
    while (i < count && data[i] >= low && data[i] < rows) {
        i++;
    }
    return i;
}

/* Writes element `at` of a tensor of f32, f64, i32 or i64 in `text`. */
static void
write_number(const cadre_tensor_t *tensor, int64_t at, char text[32])
{
    const char *data = tensor->data;
    const cadre_tensor_t one = {.dtype = tensor->dtype,
                                .data = (char *)(uintptr_t)data +
                                        cadre_dtype_size(tensor->dtype) * (size_t)at};
    double number = 0;
    if (tensor->dtype == CADRE_I64) {
        snprintf(text, 32, "%" PRId64, ((const int64_t *)tensor->data)[at]);
    } else if (cadre_tensor_number(&one, &number) < 0) {
        snprintf(text, 32, "no number");
    } else if (number == floor(number) && fabs(number) < 1e15) {
        snprintf(text, 32, "%.0f", number);
    } else {
        snprintf(text, 32, "%.7g", number);
    }
}

int
cadre_id_origin_explain(const cadre_slot_run_t *run, const cadre_row_lookup_t *lookup,
                        const cadre_tensor_t *ids, int64_t rows, int status)
{
    cadre_auto(cadre_free) char *text = cadre_strdup(cadre_error_text());
    cadre_auto(cadre_free) int64_t *sizes =
        cadre_calloc((size_t)cadre_program_symbol_count(run->program) + 1, sizeof(*sizes));
    const int count = cadre_program_argument_count(run->program); /* a run for ids gives none */
    const int64_t bad = first_bad(lookup, ids, rows);
    int argument = 0;
    int64_t at = 0;
    if (bad == cadre_tensor_count(ids) ||
        cadre_program_bind(run->program, run->arguments, count, CADRE_F32, sizes) < 0 ||
        !cadre_id_origin_find(run->program, sizes, lookup->index, bad, &argument, &at)) {
        return cadre_fail(status, "%s", text);
    }

    char number[32];
    const cadre_tensor_t *from = &run->arguments[argument];
    const int64_t width = from->rank > 1 ? cadre_tensor_count(from) / from->shape[0] : 1;
    write_number(from, at, number);
    return cadre_fail(status,
                      "%s: there argument %s has %s (row %" PRId64 ", column %" PRId64
                      ", from 0), and ids are whole numbers from 0 on",
                      text, cadre_program_argument(run->program, argument)->name, number,
                      at / width, at % width);
}
