/*
 * f64 and i64 inside programs: which operations know them, what the others say, gradients, bytes.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/graph/program_data.h"

TestSuite(wide, .timeout = 240);

static cadre_node_t
matrix(cadre_program_t *p, const char *name, cadre_dtype_t dtype)
{
    return cadre_op_arg(p, name, dtype, (cadre_dim_t[]){cadre_dim_symbol("B"), cadre_dim(4)}, 2);
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

static const cadre_dtype_t dtypes[] = {CADRE_F64, CADRE_I64};

Test(wide, stays_what_it_is_through_arithmetic_and_movement)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(dtypes); i++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
        cadre_dtype_t dtype = dtypes[i];
        cadre_node_t x = matrix(p, "x", dtype);
        cadre_node_t row = cadre_op_var_of(p, "row", dtype, (int64_t[]){4}, 1);
        cadre_node_t index = cadre_op_arg(p, "index", CADRE_I64, (cadre_dim_t[]){cadre_dim(3)}, 1);
        const cadre_dim_t flat[] = {cadre_dim_symbol_times("B", 4)};
        expect(p, cadre_op_add(p, x, row), dtype, "[B,4]");
        expect(p, cadre_op_sub(p, x, row), dtype, "[B,4]");
        expect(p, cadre_op_mul(p, row, x), dtype, "[B,4]");
        expect(p, cadre_op_div(p, row, x), dtype, "[B,4]");
        expect(p, cadre_op_max(p, x, row), dtype, "[B,4]");
        expect(p, cadre_op_min(p, x, row), dtype, "[B,4]");
        expect(p, cadre_op_gt(p, x, row), CADRE_F32, "[B,4]");
        expect(p, cadre_op_eq(p, x, row), CADRE_F32, "[B,4]");
        expect(p, cadre_op_where(p, cadre_op_gt(p, x, row), x, row), dtype, "[B,4]");
        expect(p, cadre_op_sum(p, x, 0), dtype, "[4]");
        expect(p, cadre_op_reduce_max(p, x, 1), dtype, "[B]");
        expect(p, cadre_op_sum_all(p, x), dtype, "[]");
        expect(p, cadre_op_reshape(p, x, flat, 1), dtype, "[4*B]");
        expect(p, cadre_op_transpose(p, x, (int[]){1, 0}), dtype, "[4,B]");
        expect(p, cadre_op_concat(p, (cadre_node_t[]){x, x}, 2, 1), dtype, "[B,8]");
        expect(p, cadre_op_slice(p, x, 1, 1, 2), dtype, "[B,2]");
        expect(p, cadre_op_pad(p, x, 1, 1, 2), dtype, "[B,7]");
        expect(p, cadre_op_detach(p, x), dtype, "[B,4]");
        expect(p, cadre_op_take(p, row, index), dtype, "[3]");
        expect(p, cadre_op_cast(p, x, CADRE_BF16), CADRE_BF16, "[B,4]");
    }
}

Test(wide, has_a_mean_in_f64)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    expect(p, cadre_op_mean_all(p, matrix(p, "x", CADRE_F64)), CADRE_F64, "[]");
}

/* ---- what refuses them ---- */

typedef cadre_node_t build_t(cadre_program_t *p, cadre_node_t x);

static cadre_node_t
add_f32(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_add(p, x, cadre_op_const_f32(p, 1));
}
static cadre_node_t
matmul(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_matmul_transposed(p, x, 0, x, 1);
}
static cadre_node_t
mean(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_mean(p, x, 0);
}
static cadre_node_t
argmax(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_argmax(p, x, 0);
}
static cadre_node_t
condition(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_where(p, x, x, x);
}
static cadre_node_t
either(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_where(p, cadre_op_eq(p, x, x), x, cadre_op_const_f32(p, 0));
}
static cadre_node_t
positions(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_take(p, x, x);
}
static cadre_node_t
counted(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_scatter(p, x, cadre_op_cast(p, cadre_op_sum(p, x, 1), CADRE_I32), cadre_dim(9));
}
static cadre_node_t
labelled(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_softmax_cross_entropy(p, x, cadre_op_sum(p, x, 1));
}
static cadre_node_t
squared_error(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_mse(p, cadre_op_cast(p, x, CADRE_F32), x);
}

Test(wide, is_refused_by_name_where_nothing_computes_in_it)
{
    static const struct {
        cadre_dtype_t dtype;
        build_t *build;
        const char *text;
    } cases[] = {
        {CADRE_F64, cadre_op_sqrt, "top: sqrt: needs f32, not f64"},
        {CADRE_I64, cadre_op_neg, "top: neg: needs f32, not i64"},
        {CADRE_I64, add_f32, "top: add: types differ: i64 and f32"},
        {CADRE_F64, add_f32, "top: add: types differ: f64 and f32"},
        {CADRE_F64, matmul, "top: matmul: needs f32 or bf16, not f64"},
        {CADRE_I64, matmul, "top: matmul: needs f32 or bf16, not i64"},
        {CADRE_I64, mean, "top: mean: needs f32 or f64, not i64"},
        {CADRE_F64, argmax, "top: argmax: needs f32, not f64"},
        {CADRE_I64, argmax, "top: argmax: needs f32, not i64"},
        {CADRE_F64, cadre_op_softmax, "top: softmax: needs f32, not f64"},
        {CADRE_I64, condition, "top: where: needs f32, not i64"},
        {CADRE_F64, either, "top: where: types differ: f64 and f32"},
        {CADRE_F64, positions, "top: take: the index must be i32, not f64"},
        {CADRE_I64, counted, "top: scatter: needs f32, not i64"},
        {CADRE_F64, labelled, "top: xent: needs f32, not f64"},
        {CADRE_F64, squared_error, "top: sub: types differ: f32 and f64"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
        cadre_program_scope_begin(p, "top");
        cadre_node_t x = matrix(p, "x", cases[i].dtype);
        cr_assert_eq(cases[i].build(p, x).id, 0, "%s", cases[i].text);
        cr_assert_eq(cadre_program_finish(p), CADRE_EDTYPE);
        cr_assert_str_eq(cadre_error_text(), cases[i].text);
    }
}

Test(wide, takes_labels_of_i64)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t x = matrix(p, "x", CADRE_F32);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_I64, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
    expect(p, cadre_op_softmax_cross_entropy(p, x, y), CADRE_F32, "[]");
    expect(p, cadre_op_correct(p, x, y), CADRE_F32, "[B]");
    expect(p, cadre_op_confusion(p, x, y), CADRE_F32, "[4,4]");
    expect(p, cadre_op_mse(p, cadre_op_sum(p, x, 1), y), CADRE_F32, "[]");
    expect(p, cadre_op_embedding(p, x, y), CADRE_F32, "[B,4]");
}

/* ---- variables and pushes ---- */

Test(wide, has_variables_of_each_dtype_that_a_ps_adds_in)
{
    static const cadre_dtype_t refused[] = {CADRE_BF16, CADRE_U64, CADRE_U8};
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t count = cadre_op_var_of(p, "count", CADRE_I64, NULL, 0);
    expect(p, count, CADRE_I64, "[]");
    expect(p, cadre_op_var_of(p, "i", CADRE_I32, NULL, 0), CADRE_I32, "[]");
    expect(p, cadre_op_var_of(p, "w", CADRE_F32, (int64_t[]){2}, 1), CADRE_F32, "[2]");
    cr_assert_eq(cadre_op_var_of(p, "count", CADRE_I64, NULL, 0).id, count.id);
    cr_assert_eq(cadre_op_var_of(p, "count", CADRE_F64, NULL, 0).id, 0);
    cr_assert_eq(cadre_program_finish(p), CADRE_EDTYPE);
    cr_assert_str_eq(cadre_error_text(), "variable count is there as i64, not f64");
    for (size_t i = 0; i < CADRE_COUNT_OF(refused); i++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *q = cadre_program_new("model");
        cr_assert_eq(cadre_op_var_of(q, "v", refused[i], NULL, 0).id, 0);
        cr_assert_eq(cadre_program_finish(q), CADRE_EDTYPE);
        cr_assert_not_null(strstr(cadre_error_text(), "variable v must be f32, f64, i32 or i64"));
    }
}

Test(wide, pushes_what_has_the_dtype_of_its_variable)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t count = cadre_op_var_of(p, "count", CADRE_I64, NULL, 0);
    cadre_op_push(p, count, cadre_op_const_f64(p, 1));
    cr_assert_eq(cadre_program_finish(p), CADRE_EDTYPE);
    cr_assert_str_eq(cadre_error_text(), "push: the gradient of count must be i64, not f64");
}

/* ---- gradients ---- */

/* The mean of w, by way of a node of another dtype. */
static cadre_node_t
loss_through(cadre_program_t *p, cadre_node_t w, cadre_dtype_t dtype)
{
    return cadre_op_mean_all(p, cadre_op_cast(p, cadre_op_cast(p, w, dtype), CADRE_F32));
}

Test(wide, refuses_a_gradient_through_f64)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){4}, 1);
    cadre_op_minimize(p, loss_through(p, w, CADRE_F64));
    cr_assert_eq(cadre_program_finish(p), CADRE_EDTYPE);
    cr_assert_str_eq(cadre_error_text(),
                     "gradient: none goes through cast of f64: detach it, or compute in f32");
}

Test(wide, has_no_gradient_through_i64)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){4}, 1);
    cadre_node_t gradient = {0};
    cadre_op_gradient(p, loss_through(p, w, CADRE_I64), &w, 1, &gradient);
    cr_assert_eq(cadre_program_finish(p), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "gradient: the loss depends on w only through what has "
                                         "none: integers, comparisons, detach and the like");
}

/* A loss that reads a statistic trains what is f32, and leaves the statistic alone. */
Test(wide, minimizes_over_variables_of_f32_only)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){4}, 1);
    cadre_node_t mean_of_x = cadre_op_var_of(p, "mean", CADRE_F64, (int64_t[]){4}, 1);
    cadre_node_t centred = cadre_op_sub(p, w, cadre_op_cast(p, mean_of_x, CADRE_F32));
    cadre_op_minimize(p, cadre_op_mean_all(p, cadre_op_square(p, centred)));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_program_push_count(p), 1);
    cr_assert_str_eq(cadre_program_variable(p, cadre_program_push(p, 0)->variable)->name, "w");
}

/* ---- bytes ---- */

/* A program with a variable and a constant of this dtype. */
static cadre_program_t *
small(cadre_dtype_t dtype)
{
    cadre_program_t *p = cadre_program_new("m");
    cadre_node_t v = cadre_op_var_of(p, "v", dtype, (int64_t[]){2}, 1);
    int64_t words[] = {0x0102030405060708, 0x1112131415161718};
    cadre_tensor_t tensor = {.dtype = dtype, .rank = 1, .shape = {2}, .data = words};
    cadre_node_t constant = cadre_op_const(p, &tensor);
    cadre_op_push(p, v, constant);
    cadre_op_result(p, "v", v);
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    return p;
}

enum { FORMAT_AT = 4, DTYPE_AT = 19 };

Test(wide, is_encoded_in_a_format_that_only_such_programs_have)
{
    static const cadre_dtype_t all[] = {CADRE_F32, CADRE_I32, CADRE_F64, CADRE_I64};
    for (size_t i = 0; i < CADRE_COUNT_OF(all); i++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = small(all[i]);
        cadre_auto(cadre_program_destroy) cadre_program_t *q = NULL;
        size_t size_bytes = 0;
        size_t again_size_bytes = 0;
        const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
        cr_assert_eq(bytes[FORMAT_AT], all[i] == CADRE_F32 ? 1 : 2);
        cr_assert_eq(cadre_program_decode(bytes, size_bytes, &q), 0, "%s", cadre_error_text());
        const uint8_t *again = cadre_program_bytes(q, &again_size_bytes);
        cr_assert(size_bytes == again_size_bytes && memcmp(bytes, again, size_bytes) == 0);
        cr_assert_eq(cadre_program_variable(q, 0)->dtype, all[i]);
        const cadre_tensor_t *left = cadre_program_constant(p, 0);
        const cadre_tensor_t *right = cadre_program_constant(q, 0);
        cr_assert_eq(left->dtype, right->dtype);
        cr_assert_eq(memcmp(left->data, right->data, cadre_tensor_size_bytes(left)), 0);
    }
}

/* Decodes the bytes of small(i64) with one of them changed. */
static int
decode_changed(size_t at, uint8_t from, uint8_t to)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = small(CADRE_I64);
    cadre_auto(cadre_program_destroy) cadre_program_t *q = NULL;
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    cadre_auto(cadre_free) uint8_t *copy = cadre_calloc(size_bytes, 1);
    memcpy(copy, bytes, size_bytes);
    cr_assert_eq(copy[at], from);
    copy[at] = to;
    return cadre_program_decode(copy, size_bytes, &q);
}

Test(wide, decodes_no_other_form_of_a_variable)
{
    cr_assert_eq(decode_changed(DTYPE_AT, CADRE_I64, CADRE_U64), CADRE_EMALFORMED);
    cr_assert_eq(decode_changed(DTYPE_AT, CADRE_I64, CADRE_BF16), CADRE_EMALFORMED);
    cr_assert_eq(decode_changed(DTYPE_AT, CADRE_I64, 200), CADRE_EMALFORMED);
    cr_assert_eq(decode_changed(DTYPE_AT, CADRE_I64, CADRE_F64),
                 CADRE_EDTYPE); /* its push is i64 */
    cr_assert_eq(decode_changed(FORMAT_AT, 2, 3), CADRE_EPROTOCOL);
    cr_assert_str_eq(cadre_error_text(), "program: format 3, not 1 or 2");
    cr_assert_eq(decode_changed(FORMAT_AT, 2, 1), CADRE_EMALFORMED);
}

/* All variables are f32: the bytes say a dtype that they need not. */
Test(wide, decodes_no_dtypes_where_all_are_f32)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = small(CADRE_F32);
    cadre_auto(cadre_program_destroy) cadre_program_t *q = NULL;
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    cadre_auto(cadre_free) uint8_t *copy = cadre_calloc(size_bytes + 1, 1);
    memcpy(copy, bytes, DTYPE_AT);
    copy[FORMAT_AT] = 2;
    copy[DTYPE_AT] = CADRE_F32;
    memcpy(copy + DTYPE_AT + 1, bytes + DTYPE_AT, size_bytes - DTYPE_AT);
    cr_assert_eq(cadre_program_decode(copy, size_bytes + 1, &q), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(), "program: in another format than its variables need");
}
