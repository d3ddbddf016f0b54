#include <criterion/criterion.h>
#include <string.h>

#include "common/graph/program.h"
#include "common/memory.h"

TestSuite(program_codec, .timeout = 30);

static cadre_program_t *
model(void)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_dim_t dims[2] = {cadre_sym("B"), cadre_dim(4)};
    cadre_node_t x = cadre_arg(p, "x", CADRE_F32, dims, 2);
    cadre_node_t label = cadre_arg(p, "label", CADRE_I32, dims, 1);
    cadre_node_t w = cadre_var(p, "w", (int64_t[]){4, 3}, 2);
    cadre_node_t b = cadre_var(p, "b", (int64_t[]){3}, 1);
    cadre_node_t h = cadre_dropout(p, cadre_dense(p, x, w, b), 0.5F, 1);
    cadre_node_t both[2] = {
        h, cadre_transpose(p, cadre_transpose(p, h, (int[]){1, 0}), (int[]){1, 0})};
    h = cadre_slice(p, cadre_pad(p, cadre_concat(p, both, 2, 1), 1, 1, 1), 1, 1, 3);
    cadre_node_t loss = cadre_softmax_cross_entropy(p, h, label);
    cadre_minimize(p, loss);
    cadre_result(p, "loss", loss);
    cadre_result(p, "probabilities", cadre_softmax(p, h));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    return p;
}

static uint8_t *
copy_of(const cadre_program_t *p, size_t *size_bytes)
{
    const uint8_t *bytes = cadre_program_bytes(p, size_bytes);
    uint8_t *copy = cadre_calloc(*size_bytes + 1, 1);
    memcpy(copy, bytes, *size_bytes);
    return copy;
}

Test(program_codec, gives_back_what_it_was_given)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = model();
    cadre_auto(cadre_program_destroy) cadre_program_t *q = NULL;
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    cr_assert_eq(cadre_program_decode(bytes, size_bytes, &q), 0, "%s", cadre_error_text());
    size_t again_size_bytes = 0;
    const uint8_t *again = cadre_program_bytes(q, &again_size_bytes);
    cr_assert_eq(again_size_bytes, size_bytes);
    cr_assert_eq(memcmp(again, bytes, size_bytes), 0);
    cr_assert_eq(cadre_program_hash(q), cadre_program_hash(p));
    cr_assert_eq(cadre_program_node_count(q), cadre_program_node_count(p));
    for (int i = 0; i < cadre_program_node_count(p); i++) {
        const cadre_program_node_t *left = cadre_program_node(p, i);
        const cadre_program_node_t *right = cadre_program_node(q, i);
        cr_assert(left->op == right->op && left->dtype == right->dtype);
        cr_assert(cadre_extents_equal(&left->shape, &right->shape));
        cr_assert_eq(memcmp(left->inputs, right->inputs, sizeof(left->inputs)), 0);
        cr_assert_eq(memcmp(left->attributes, right->attributes, sizeof(left->attributes)), 0);
    }
    for (int i = 0; i < cadre_program_push_count(p); i++) {
        cr_assert_eq(cadre_program_push(q, i)->node, cadre_program_push(p, i)->node);
    }
    cr_assert_str_eq(cadre_program_result(q, 1)->name, "probabilities");
    cr_assert_str_eq(cadre_program_variable(q, 1)->name, "b");
}

Test(program_codec, has_the_same_bytes_on_every_machine)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("p");
    cadre_dim_t dims[1] = {cadre_sym_times("B", 2)};
    cadre_node_t x = cadre_arg(p, "x", CADRE_F32, dims, 1);
    cadre_result(p, "y", cadre_mul(p, x, cadre_const_f32(p, 1.5F)));
    cr_assert_eq(cadre_program_finish(p), 0);
    const uint8_t golden[] = {
        'C', 'D', 'R', 'P', 1,   0, 0,    0,    1, 'p', 1, 1, 'B', 3, 0, 0, 0, /* head */
        1,   0,   1,   'x', 1,   1, 0,    2,    0, 0,   0, 0, 0,   0, 0,       /* arg x f32 [2*B] */
        3,   0,   1,   0,   0,   0, 0xc0, 0x3f, /* const f32 [] 1.5 */
        18,  2,   0,   0,   0,   0, 1,    0,    0, 0,   3, 0, 0,   0, 0, 0, 0, 0, /* map2 mul 0 1 */
        0,   0,   1,   1,   'y', 2, 0,    0,    0,                                /* result y */
    };
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    cr_assert_eq(size_bytes, sizeof(golden));
    cr_assert_eq(memcmp(bytes, golden, sizeof(golden)), 0);
    cr_assert_eq(cadre_program_hash(p), UINT64_C(0x816c3de16244f32d));
}

Test(program_codec, refuses_every_cut_and_what_follows_the_end)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = model();
    size_t size_bytes = 0;
    cadre_auto(cadre_free) uint8_t *bytes = copy_of(p, &size_bytes);
    for (size_t cut = 0; cut <= size_bytes + 1; cut++) {
        cadre_program_t *q = NULL;
        int status = cadre_program_decode(bytes, cut, &q);
        cr_assert_eq(status, cut == size_bytes ? 0 : CADRE_EMALFORMED, "%zu: %s", cut,
                     cadre_error_text());
        cadre_program_destroy(&q);
    }
}

Test(program_codec, survives_every_changed_byte)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = model();
    size_t size_bytes = 0;
    cadre_auto(cadre_free) uint8_t *bytes = copy_of(p, &size_bytes);
    int refused = 0;
    for (size_t at = 0; at < size_bytes; at++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[at] ^= (uint8_t)(1 << bit);
            cadre_program_t *q = NULL;
            refused += cadre_program_decode(bytes, size_bytes, &q) < 0;
            cadre_program_destroy(&q);
            bytes[at] ^= (uint8_t)(1 << bit);
        }
    }
    cr_assert_gt(refused, (int)size_bytes * 4);
}

/* Decodes the model with one byte changed. */
static int
decode_changed(size_t at, uint8_t value)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = model();
    cadre_auto(cadre_program_destroy) cadre_program_t *q = NULL;
    size_t size_bytes = 0;
    cadre_auto(cadre_free) uint8_t *bytes = copy_of(p, &size_bytes);
    bytes[at] = value;
    return cadre_program_decode(bytes, size_bytes, &q);
}

Test(program_codec, names_the_version_it_does_not_know)
{
    cr_assert_eq(decode_changed(4, 2), CADRE_EPROTOCOL);
    cr_assert_str_eq(cadre_error_text(), "program: format 2, not 1");
    cr_assert_eq(decode_changed(6, 1), CADRE_EMALFORMED);
    cr_assert_eq(decode_changed(0, 'X'), CADRE_EMALFORMED);
}

Test(program_codec, infers_shapes_anew_instead_of_trusting)
{
    /* The arg x is [B,4]: its last factor stands 8 bytes before the next node. */
    cadre_auto(cadre_program_destroy) cadre_program_t *p = model();
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    size_t at = 0;
    while (!(bytes[at] == 4 && bytes[at + 1] == 0 && bytes[at + 8] == CADRE_OP_ARG)) {
        at++;
    }
    cr_assert_eq(decode_changed(at, 5), CADRE_ESHAPE);
    cr_assert_str_eq(cadre_error_text(),
                     "node 4: matmul: inner dimensions differ: [B,5] times [4,3]");
}

Test(program_codec, limits_its_size)
{
    uint8_t *bytes = cadre_calloc(CADRE_PROGRAM_SIZE_MAX + 1, 1);
    cadre_program_t *p = NULL;
    cr_assert_eq(cadre_program_decode(bytes, CADRE_PROGRAM_SIZE_MAX + 1, &p), CADRE_ETOOLARGE);
    cr_assert_eq(cadre_program_decode(bytes, CADRE_PROGRAM_SIZE_MAX, &p), CADRE_EMALFORMED);
    cadre_free(&bytes);
}

Test(program_codec, limits_constants)
{
    int64_t limit = CADRE_PROGRAM_CONSTANT_SIZE_MAX / 4;
    for (int64_t over = 0; over <= 1; over++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("constants");
        cadre_auto(cadre_tensor_fini) cadre_tensor_t tensor = {0};
        cr_assert_eq(cadre_tensor_init(&tensor, CADRE_F32, (int64_t[]){limit + over}, 1), 0);
        cadre_result(p, "c", cadre_const(p, &tensor));
        cr_assert_eq(cadre_program_finish(p), over ? CADRE_ETOOLARGE : 0);
    }
}
