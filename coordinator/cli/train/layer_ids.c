#include "coordinator/cli/train/layer_ids.h"

#include <math.h>
#include <string.h>

#include "common/graph/program.h"

static const cadre_node_t none = {0};

/* Returns the size of an axis of a node behind the batch. */
static int64_t
size_of(const cadre_program_t *program, cadre_node_t x, int axis)
{
    return cadre_program_node(program, x.id - 1)->shape.extents[axis].factor;
}

/* Returns the ids in column `number` as positions in a table where they begin at `first`. What is
 * none of the field's `count` ids becomes -1. */
static cadre_node_t
place_field(cadre_program_t *p, cadre_node_t x, int64_t number, const int64_t range[2])
{
    cadre_node_t ids = cadre_op_slice(p, x, 1, number, 1);
    cadre_node_t no_id = cadre_op_const_f32(p, -1);
    cadre_node_t placed = cadre_op_add(p, ids, cadre_op_const_f32(p, (float)range[0]));
    placed = cadre_op_where(p, cadre_op_gt(p, ids, no_id), placed, no_id);
    return cadre_op_where(p, cadre_op_gt(p, cadre_op_const_f32(p, (float)range[1]), ids), placed,
                          no_id);
}

/* Returns the numbers x as ids of a table, i32: whole ones from 0 to CADRE_LAYER_IDS_MAX - 1, as
 * f32 holds larger ones to a multiple of two. What is no id becomes one below 0. */
static cadre_node_t
limit_ids(cadre_program_t *p, cadre_node_t x)
{
    cadre_node_t no_id = cadre_op_const_f32(p, (float)INT32_MIN);
    cadre_node_t whole = cadre_op_cast(p, cadre_op_cast(p, x, CADRE_I32), CADRE_F32);
    cadre_node_t ids = cadre_op_where(p, cadre_op_eq(p, x, whole), x, no_id);
    ids = cadre_op_where(p, cadre_op_gt(p, ids, cadre_op_const_f32(p, -1)), ids, no_id);
    cadre_node_t end = cadre_op_const_f32(p, CADRE_LAYER_IDS_MAX);
    return cadre_op_cast(p, cadre_op_where(p, cadre_op_gt(p, end, ids), ids, no_id), CADRE_I32);
}

/* Returns the ids x, in columns that each have ids of their own, as keys: that of id i of column c
 * is c CADRE_LAYER_IDS_MAX + i. Added in i64, where what is no id stays below 0, and cast to i32,
 * which refuses that where an i64 would look it up. */
static cadre_node_t
place_keys(cadre_program_t *p, cadre_node_t x)
{
    int64_t first[CADRE_LAYER_FIELDS_MAX];
    const int64_t count = size_of(p, x, 1);
    for (int64_t i = 0; i < count; i++) {
        first[i] = i * CADRE_LAYER_IDS_MAX;
    }
    const cadre_tensor_t begins = cadre_tensor_view(CADRE_I64, first, &count, 1);
    cadre_node_t ids = cadre_op_cast(p, limit_ids(p, x), CADRE_I64);
    return cadre_op_cast(p, cadre_op_add(p, ids, cadre_op_const(p, &begins)), CADRE_I32);
}

/* Returns the keys x as those of a table in which each column has rows of its own: with a number
 * added that differs from column to column, and is 0 for the first. Odd, and far from any other. */
static cadre_node_t
spread_keys(cadre_program_t *p, cadre_node_t x)
{
    int64_t added[CADRE_LAYER_FIELDS_MAX];
    const int64_t count = size_of(p, x, 1);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t number =
            (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
        memcpy(&added[i], &number, sizeof(number));
    }
    const cadre_tensor_t tensor = cadre_tensor_view(CADRE_I64, added, &count, 1);
    return cadre_op_add(p, x, cadre_op_const(p, &tensor));
}

cadre_node_t
cadre_layer_ids_join(cadre_program_t *program, cadre_node_t x)
{
    if (x.id == 0) {
        return none;
    }
    const cadre_extents_t shape = cadre_program_node(program, x.id - 1)->shape;
    const cadre_dim_t batch = {shape.extents[0].factor,
                               shape.extents[0].symbol < 0
                                   ? NULL
                                   : cadre_program_symbols(program)[shape.extents[0].symbol]};
    const int64_t count = shape.extents[1].factor / CADRE_KEY_PARTS;
    const cadre_dim_t dims[] = {batch, cadre_dim(count), cadre_dim(CADRE_KEY_PARTS)};
    return cadre_op_key(program, cadre_op_reshape(program, x, dims, 3));
}

cadre_node_t
cadre_layer_ids_place(cadre_program_t *program, const cadre_layer_t *layer, cadre_node_t x)
{
    if (layer->field_count == 0 && layer->keys) {
        return cadre_layer_ids_join(program, x);
    }
    if (layer->field_count == 0) {
        return layer->table.is_table ? limit_ids(program, x) : x;
    }
    if (layer->table.is_table) {
        return layer->keys ? spread_keys(program, cadre_layer_ids_join(program, x))
                           : place_keys(program, x);
    }
    cadre_node_t placed = none;
    int64_t first = 0;
    for (size_t i = 0; i < layer->field_count; i++) {
        cadre_node_t ids =
            place_field(program, x, (int64_t)i, (int64_t[]){first, layer->fields[i]});
        placed = i == 0 ? ids : cadre_op_concat(program, (cadre_node_t[]){placed, ids}, 2, 1);
        first += layer->fields[i];
    }
    return placed;
}

/* Returns what a bag's sum is multiplied with: 1 over the sum of its values, or over the root of
 * that of their squares, [B, 1]; a number where each value is 1. */
static cadre_node_t
share(cadre_program_t *p, bool is_mean, const cadre_layer_items_t *items)
{
    const cadre_node_t one = cadre_op_const_f32(p, 1);
    if (items->values.id == 0) {
        const float count = (float)size_of(p, items->ids, 1);
        return cadre_op_const_f32(p, 1 / (is_mean ? count : sqrtf(count)));
    }
    cadre_node_t total = is_mean ? items->values : cadre_op_square(p, items->values);
    total = cadre_op_sum(p, total, 1);
    total = is_mean ? total : cadre_op_sqrt(p, total);
    const cadre_node_t zero = cadre_op_const_f32(p, 0);
    const cadre_node_t is_none = cadre_op_eq(p, total, zero);
    total = cadre_op_div(p, one, cadre_op_where(p, is_none, one, total));
    total = cadre_op_where(p, is_none, zero, total);
    return cadre_op_reshape(p, total, (cadre_dim_t[]){items->batch, cadre_dim(1)}, 2);
}

cadre_node_t
cadre_layer_ids_bag(cadre_program_t *program, const cadre_layer_t *layer,
                    const cadre_layer_items_t *items, cadre_node_t rows)
{
    cadre_node_t sum =
        cadre_op_embedding_bag(program, rows, items->ids, none, items->values, CADRE_BAG_SUM);
    return layer->combiner == CADRE_COMBINER_SUM
               ? sum
               : cadre_op_mul(program, sum,
                              share(program, layer->combiner == CADRE_COMBINER_MEAN, items));
}
