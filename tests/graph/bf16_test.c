/*
 * bf16 inside programs: which operations know it, what the others say, its gradients, its bytes.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/graph/program_data.h"

TestSuite(bf16, .timeout = 240);

static cadre_node_t
half_arg(cadre_program_t *p, const char *name)
{
    return cadre_op_arg(p, name, CADRE_BF16, (cadre_dim_t[]){cadre_dim_symbol("B"), cadre_dim(4)},
                        2);
}

static cadre_node_t
index_arg(cadre_program_t *p)
{
    return cadre_op_arg(p, "index", CADRE_I32, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
}

static void
expect(cadre_program_t *p, cadre_node_t node, cadre_dtype_t dtype, const char *shape)
{
    char text[CADRE_EXTENTS_TEXT_SIZE];
    cr_assert_neq(node.id, 0, "%s", p->text);
    const cadre_program_node_t *at = cadre_program_at(p, node);
    cr_assert_eq(at->dtype, dtype, "%s", cadre_dtype_text(at->dtype));
    cr_assert_str_eq(cadre_extents_text(&at->shape, cadre_program_symbols(p), text), shape);
}

Test(bf16, goes_through_what_moves_and_is_f32_after_a_product)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t x = half_arg(p, "x");
    cadre_node_t both[2] = {x, x};
    const cadre_dim_t flat[] = {cadre_dim_symbol_times("B", 4)};
    const cadre_dim_t deep[] = {cadre_dim(3), cadre_dim_symbol("B"), cadre_dim(4)};
    expect(p, x, CADRE_BF16, "[B,4]");
    expect(p, cadre_op_reshape(p, x, flat, 1), CADRE_BF16, "[4*B]");
    expect(p, cadre_op_transpose(p, x, (int[]){1, 0}), CADRE_BF16, "[4,B]");
    expect(p, cadre_op_concat(p, both, 2, 1), CADRE_BF16, "[B,8]");
    expect(p, cadre_op_slice(p, x, 1, 1, 2), CADRE_BF16, "[B,2]");
    expect(p, cadre_op_pad(p, x, 1, 1, 2), CADRE_BF16, "[B,7]");
    expect(p, cadre_op_broadcast(p, x, deep, 3), CADRE_BF16, "[3,B,4]");
    expect(p, cadre_op_detach(p, x), CADRE_BF16, "[B,4]");
    expect(p, cadre_op_take(p, x, index_arg(p)), CADRE_BF16, "[B,4]");
    expect(p, cadre_op_matmul_transposed(p, x, 0, x, 1), CADRE_F32, "[B,B]");
    expect(p, cadre_op_cast(p, x, CADRE_F32), CADRE_F32, "[B,4]");
    expect(p, cadre_op_cast(p, x, CADRE_I32), CADRE_I32, "[B,4]");
    expect(p, cadre_op_cast(p, cadre_op_cast(p, x, CADRE_I32), CADRE_BF16), CADRE_BF16, "[B,4]");
}

/* ---- what refuses it ---- */

typedef cadre_node_t build_t(cadre_program_t *p, cadre_node_t x);

static cadre_node_t
add(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_add(p, x, x);
}
static cadre_node_t
eq(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_eq(p, x, x);
}
static cadre_node_t
add_to_f32(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_add(p, cadre_op_cast(p, x, CADRE_F32), x);
}
static cadre_node_t
matmul_with_f32(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_matmul(p, x, cadre_op_var(p, "w", (int64_t[]){4, 4}, 2));
}
static cadre_node_t
matmul_of_integers(cadre_program_t *p, cadre_node_t x)
{
    cadre_node_t whole = cadre_op_cast(p, x, CADRE_I32);
    return cadre_op_matmul_transposed(p, whole, 0, whole, 1);
}
static cadre_node_t
where(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_where(p, x, x, x);
}
static cadre_node_t
sum(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_sum(p, x, 0);
}
static cadre_node_t
argmax(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_argmax(p, x, 1);
}
static cadre_node_t
xent(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_xent(p, x, index_arg(p));
}
static cadre_node_t
rownorm(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_rownorm(p, x, 1e-5F);
}
static cadre_node_t
scatter(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_scatter(p, x, index_arg(p), cadre_dim(7));
}
static cadre_node_t
bag(cadre_program_t *p, cadre_node_t x)
{
    cadre_node_t index = index_arg(p);
    return cadre_op_bag(p, x, index, index, (cadre_node_t){0}, CADRE_BAG_SUM);
}
static cadre_node_t
im2col(cadre_program_t *p, cadre_node_t x)
{
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(2), cadre_dim(2), cadre_dim(1)};
    return cadre_op_im2col(p, cadre_op_reshape(p, x, dims, 4), (int[]){1, 1}, 1, 0);
}
static cadre_node_t
concat_with_f32(cadre_program_t *p, cadre_node_t x)
{
    cadre_node_t both[2] = {cadre_op_cast(p, x, CADRE_F32), x};
    return cadre_op_concat(p, both, 2, 0);
}

Test(bf16, is_refused_by_name_where_nothing_computes_in_it)
{
    static const struct {
        build_t *build;
        const char *text;
    } cases[] = {
        {cadre_op_relu, "top: relu: needs f32, not bf16"},
        {add, "top: add: needs f32, f64 or i64, not bf16"},
        {eq, "top: eq: needs f32, f64 or i64, not bf16"},
        {add_to_f32, "top: add: types differ: f32 and bf16"},
        {matmul_with_f32, "top: matmul: types differ: bf16 and f32"},
        {matmul_of_integers, "top: matmul: needs f32 or bf16, not i32"},
        {where, "top: where: needs f32, not bf16"},
        {sum, "top: sum: needs f32, f64 or i64, not bf16"},
        {argmax, "top: argmax: needs f32, not bf16"},
        {cadre_op_softmax, "top: softmax: needs f32, not bf16"},
        {xent, "top: xent: needs f32, not bf16"},
        {rownorm, "top: rownorm: needs f32, not bf16"},
        {scatter, "top: scatter: needs f32, not bf16"},
        {bag, "top: bag: needs f32, not bf16"},
        {im2col, "top: im2col: needs f32, not bf16"},
        {concat_with_f32, "top: concat: needs f32, not bf16"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
        cadre_program_scope_begin(p, "top");
        cadre_node_t x = half_arg(p, "x");
        cr_assert_eq(cases[i].build(p, x).id, 0, "%s", cases[i].text);
        cr_assert_eq(cadre_program_finish(p), CADRE_EDTYPE);
        cr_assert_str_eq(cadre_error_text(), cases[i].text);
    }
}

Test(bf16, is_neither_constant_nor_pushed)
{
    uint16_t numbers[3] = {0x3f80, 0, 0};
    cadre_tensor_t tensor = {.dtype = CADRE_BF16, .rank = 1, .shape = {3}, .data = numbers};
    cadre_program_t *p = cadre_program_new("model");
    cr_assert_eq(cadre_op_const(p, &tensor).id, 0);
    cr_assert_eq(cadre_program_finish(p), CADRE_EDTYPE);
    cr_assert_str_eq(cadre_error_text(), "a constant must be f32, f64, i32 or i64, not bf16");
    cadre_program_destroy(&p);
    p = cadre_program_new("model");
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){4}, 1);
    cadre_op_push(p, w, cadre_op_cast(p, w, CADRE_BF16));
    cr_assert_eq(cadre_program_finish(p), CADRE_EDTYPE);
    cr_assert_str_eq(cadre_error_text(), "push: the gradient of w must be f32, not bf16");
    cadre_program_destroy(&p);
}

/* ---- gradients ---- */

Test(bf16, has_gradients_of_f32_through_whatever_it_went)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t x = half_arg(p, "x");
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){8, 3}, 2);
    cadre_node_t half = cadre_op_cast(p, w, CADRE_BF16);
    cadre_node_t parts[2] = {x, cadre_op_slice(p, x, 1, 0, 2)};
    cadre_node_t wide = cadre_op_pad(p, cadre_op_concat(p, parts, 2, 1), 1, 1, 1);
    cadre_node_t y = cadre_op_matmul(p, wide, cadre_op_take(p, half, cadre_op_argmax(p, w, 1)));
    cadre_node_t loss =
        cadre_op_add(p, cadre_op_mean_all(p, y), cadre_op_mean_all(p, cadre_op_square(p, y)));
    cadre_node_t wanted[3] = {x, half, w};
    cadre_node_t gradients[3];
    cadre_op_gradient(p, loss, wanted, 3, gradients);
    expect(p, gradients[0], CADRE_F32, "[B,4]");
    expect(p, gradients[1], CADRE_F32, "[8,3]");
    expect(p, gradients[2], CADRE_F32, "[8,3]");
    cr_assert_eq(gradients[1].id, gradients[2].id); /* a cast hands it on */
    cadre_op_push(p, w, gradients[2]);
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
}

Test(bf16, has_no_gradient_through_integers)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t x = half_arg(p, "x");
    cadre_node_t whole = cadre_op_cast(p, cadre_op_cast(p, x, CADRE_I32), CADRE_F32);
    cadre_node_t gradient;
    cadre_op_gradient(p, cadre_op_mean_all(p, whole), &x, 1, &gradient);
    cr_assert_eq(cadre_program_finish(p), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(),
                     "gradient: the loss depends on x only through what has none: "
                     "integers, comparisons, detach and the like");
}

/* ---- bytes ---- */

Test(bf16, is_encoded_as_an_argument_and_as_nothing_else)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("m");
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_BF16, (cadre_dim_t[]){cadre_dim(3)}, 1);
    float numbers[] = {1, 2, 3};
    cadre_tensor_t tensor = {.dtype = CADRE_F32, .rank = 1, .shape = {3}, .data = numbers};
    cadre_op_result(p, "y",
                    cadre_op_add(p, cadre_op_cast(p, x, CADRE_F32), cadre_op_const(p, &tensor)));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    cadre_auto(cadre_free) uint8_t *copy = cadre_calloc(size_bytes, 1);
    memcpy(copy, bytes, size_bytes);
    cadre_auto(cadre_program_destroy) cadre_program_t *q = NULL;
    cr_assert_eq(cadre_program_decode(copy, size_bytes, &q), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_program_hash(q), cadre_program_hash(p));
    cr_assert_eq(cadre_program_argument(q, 0)->dtype, CADRE_BF16);
    /* The constant's dtype follows its op and its number of inputs, which is 0. */
    int constants = 0;
    for (size_t i = 0; i + 2 < size_bytes; i++) {
        if (copy[i] == CADRE_OP_CONST && copy[i + 1] == 0 && copy[i + 2] == CADRE_F32) {
            copy[i + 2] = CADRE_BF16;
            constants++;
        }
    }
    cr_assert_eq(constants, 1);
    cadre_auto(cadre_program_destroy) cadre_program_t *broken = NULL;
    cr_assert_eq(cadre_program_decode(copy, size_bytes, &broken), CADRE_EMALFORMED);
}
