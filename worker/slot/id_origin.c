#include "worker/slot/id_origin.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"

enum {
    STEPS_MAX = 1024,    /* nodes that a search looks at */
    EXACT_MAX = 1 << 24, /* f32 has every whole number up to it */
};

typedef struct {
    const cadre_program_t *program;
    const int64_t *symbol_values;
    int steps;
    cadre_id_origin_t found;
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

/* Gives the value of a node that is one number of f32; false for any other. */
static bool
constant_of(const search_t *self, int32_t index, float *value)
{
    const cadre_program_node_t *node = cadre_program_node(self->program, index);
    if (node->op != CADRE_OP_CONST || node->dtype != CADRE_F32 || node->shape.rank != 0) {
        return false;
    }
    const cadre_tensor_t *tensor =
        cadre_program_constant(self->program, (int)node->attributes[CADRE_LEAF_INDEX]);
    *value = *(const float *)tensor->data;
    return true;
}

/* Notes the limit of a node that is, where numbers are below it, these, and elsewhere a number
 * below 0: where(limit > x, .., below). */
static void
note_limit(search_t *self, const cadre_program_node_t *node)
{
    float limit = 0;
    float other = 0;
    const cadre_program_node_t *compare = cadre_program_node(self->program, node->inputs[0]);
    if (node->op == CADRE_OP_WHERE && compare->op == CADRE_OP_MAP2 &&
        compare->attributes[CADRE_FUNCTION] == CADRE_MAP2_GT &&
        constant_of(self, compare->inputs[0], &limit) &&
        constant_of(self, node->inputs[2], &other) && limit >= 1 && limit <= EXACT_MAX &&
        other < 0) {
        self->found.limit = (int64_t)limit;
    }
}

/* Looks for an argument above a node; inputs are smaller than the node, so it ends. The first input
 * of a choice is what it is chosen by. */
static bool
search(search_t *self, int32_t index, const place_t *place)
{
    const cadre_program_node_t *node = cadre_program_node(self->program, index);
    if (node->op == CADRE_OP_ARG) {
        self->found.argument = (int)node->attributes[CADRE_LEAF_INDEX];
        self->found.at = position_of(place);
        return true;
    }
    for (int i = 0; i < node->input_count && self->steps < STEPS_MAX; i++) {
        place_t input;
        self->steps++;
        if (step(self, node, place, i, &input) && search(self, node->inputs[i], &input)) {
            if (i == 0) {
                note_limit(self, node);
            }
            return true;
        }
    }
    return false;
}

bool
cadre_id_origin_find(const cadre_program_t *program, const int64_t *symbol_values, int32_t node,
                     int64_t index, cadre_id_origin_t *out)
{
    search_t self = {.program = program, .symbol_values = symbol_values};
    place_t place;
    if (!set_place(&self, node, index, &place) || !search(&self, node, &place)) {
        return false;
    }
    *out = self.found;
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

/* Writes which numbers are ids: below the limit of the program or else the number of rows, which a
 * table does not have. */
static void
write_ids(int64_t limit, int64_t rows, char text[64])
{
    const int64_t end = limit > 0 ? limit : rows;
    if (end < CADRE_PROGRAM_TABLE_ROWS) {
        snprintf(text, 64, "whole numbers from 0 to %" PRId64, end - 1);
    } else {
        snprintf(text, 64, "whole numbers from 0 on");
    }
}

/* Returns whether the number is an id of a table that f32 may not have as it was. */
static bool
is_inexact(const cadre_tensor_t *tensor, int64_t at, int64_t rows)
{
    return tensor->dtype == CADRE_F32 && rows >= CADRE_PROGRAM_TABLE_ROWS &&
           ((const float *)tensor->data)[at] >= EXACT_MAX;
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
    cadre_id_origin_t found;
    if (bad == cadre_tensor_count(ids) ||
        cadre_program_bind(run->program, run->arguments, count, CADRE_F32, sizes) < 0 ||
        !cadre_id_origin_find(run->program, sizes, lookup->index, bad, &found)) {
        return cadre_fail(status, "%s", text);
    }

    char number[32];
    char wanted[64];
    const cadre_tensor_t *from = &run->arguments[found.argument];
    const int64_t width = from->rank > 1 ? cadre_tensor_count(from) / from->shape[0] : 1;
    write_number(from, found.at, number);
    write_ids(found.limit, rows, wanted);
    /* With a limit the id is but the program's word for a number that is none. */
    return cadre_fail(
        status,
        "%s: %sargument %s has %s (row %" PRId64 ", column %" PRId64 ", from 0), and ids are %s%s",
        found.limit > 0 ? cadre_op_text(lookup->op, 0) : text, found.limit > 0 ? "" : "there ",
        cadre_program_argument(run->program, found.argument)->name, number, found.at / width,
        found.at % width, wanted,
        is_inexact(from, found.at, rows)
            ? ": larger ones are keys of 64 bits, which layers and models with "
              "\"keys\": true take of columns with \"key\""
            : "");
}
