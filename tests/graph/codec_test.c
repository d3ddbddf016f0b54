#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/graph/program.h"
#include "tests/graph/random_program.h"

TestSuite(program_codec, .timeout = 240);

static cadre_program_t *
model(void)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_dim_t dims[2] = {cadre_dim_symbol("B"), cadre_dim(4)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    cadre_node_t label = cadre_op_arg(p, "label", CADRE_I32, dims, 1);
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){4, 3}, 2);
    cadre_node_t b = cadre_op_var(p, "b", (int64_t[]){3}, 1);
    cadre_node_t h = cadre_op_dropout(p, cadre_op_dense(p, x, w, b), 0.5F, 1);
    cadre_node_t both[2] = {
        h, cadre_op_transpose(p, cadre_op_transpose(p, h, (int[]){1, 0}), (int[]){1, 0})};
    h = cadre_op_slice(p, cadre_op_pad(p, cadre_op_concat(p, both, 2, 1), 1, 1, 1), 1, 1, 3);
    cadre_node_t loss = cadre_op_softmax_cross_entropy(p, h, label);
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    cadre_op_result(p, "probabilities", cadre_op_softmax(p, h));
    /* An image of 2 x 2 for each row, normalised, and the gradient of both. */
    cadre_dim_t image[4] = {cadre_dim_symbol("B"), cadre_dim(2), cadre_dim(2), cadre_dim(1)};
    cadre_node_t columns =
        cadre_op_im2col(p, cadre_op_reshape(p, x, image, 4), (int[]){2, 1}, 1, 1);
    cadre_node_t energy =
        cadre_op_sum_all(p, cadre_op_square(p, cadre_op_rownorm(p, columns, 1e-5F)));
    cadre_node_t slope = {0};
    cadre_op_gradient(p, energy, &x, 1, &slope);
    cadre_op_result(p, "slope", slope);
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

/* Decodes what `p` was encoded to, and compares all of both. */
static void
check_round_trip(const cadre_program_t *p)
{
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
        cr_assert_eq(left->input_count, right->input_count);
        cr_assert_eq(memcmp(left->inputs, right->inputs, sizeof(left->inputs)), 0);
        cr_assert_eq(memcmp(left->attributes, right->attributes, sizeof(left->attributes)), 0);
    }
    cr_assert_eq(cadre_program_push_count(q), cadre_program_push_count(p));
    for (int i = 0; i < cadre_program_push_count(p); i++) {
        cr_assert_eq(cadre_program_push(q, i)->node, cadre_program_push(p, i)->node);
    }
    cr_assert_eq(cadre_program_result_count(q), cadre_program_result_count(p));
    for (int i = 0; i < cadre_program_result_count(p); i++) {
        cr_assert_str_eq(cadre_program_result(q, i)->name, cadre_program_result(p, i)->name);
        cr_assert_eq(cadre_program_result(q, i)->node, cadre_program_result(p, i)->node);
    }
    for (int i = 0; i < cadre_program_variable_count(p); i++) {
        cr_assert_str_eq(cadre_program_variable(q, i)->name, cadre_program_variable(p, i)->name);
    }
    for (int i = 0; i < cadre_program_constant_count(p); i++) {
        const cadre_tensor_t *left = cadre_program_constant(p, i);
        const cadre_tensor_t *right = cadre_program_constant(q, i);
        cr_assert_eq(memcmp(left->data, right->data, cadre_tensor_size_bytes(left)), 0);
    }
}

Test(program_codec, gives_back_what_it_was_given)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = model();
    check_round_trip(p);
}

static void
see_operations(const cadre_program_t *p, bool seen[UINT8_MAX + 1])
{
    for (int i = 0; i < cadre_program_node_count(p); i++) {
        seen[cadre_program_node(p, i)->op] = true;
    }
}

static void
expect_each_operation(const bool seen[UINT8_MAX + 1])
{
#define EXPECT(NAME, number, word, ...) cr_assert(seen[number], "no %s", #word);
    CADRE_OP_LIST(EXPECT)
#undef EXPECT
}

Test(program_codec, gives_back_random_programs_of_all_operations)
{
    bool seen[UINT8_MAX + 1] = {false};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        int size = 7 + (int)(seed % (RANDOM_POOL_MAX - 6));
        cadre_auto(cadre_program_destroy) cadre_program_t *p = random_program(seed, size);
        cr_assert_eq(cadre_program_finish(p), 0, "seed %d: %s", (int)seed, cadre_error_text());
        check_round_trip(p);
        see_operations(p, seen);
    }
    expect_each_operation(seen);
}

/* The file's program, or NULL for what is none. */
static cadre_program_t *
program_in_file(const char *path)
{
    uint8_t bytes[1 << 14];
    cadre_program_t *p = NULL;
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    size_t size_bytes = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    return cadre_program_decode(bytes, size_bytes, &p) == 0 ? p : NULL;
}

Test(program_codec, has_each_operation_in_the_corpus_of_its_fuzzer)
{
    const char *source = getenv("CADRE_SOURCE_DIR");
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/program_decode", source ? source : ".");
    DIR *folder = opendir(path);
    cr_assert_not_null(folder, "%s", path);
    bool seen[UINT8_MAX + 1] = {false};
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/program_decode/%s",
                 source ? source : ".", entry->d_name);
        cadre_auto(cadre_program_destroy) cadre_program_t *p = program_in_file(path);
        if (p) {
            see_operations(p, seen);
        }
    }
    (void)closedir(folder);
    expect_each_operation(seen);
}

Test(program_codec, has_the_same_bytes_on_every_machine)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("p");
    cadre_dim_t dims[1] = {cadre_dim_symbol_times("B", 2)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 1);
    cadre_op_result(p, "y", cadre_op_mul(p, x, cadre_op_const_f32(p, 1.5F)));
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

Test(program_codec, has_the_same_bytes_for_norms_and_windows)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("p");
    cadre_node_t x = cadre_op_var(p, "x", (int64_t[]){1, 2, 2, 1}, 4);
    cadre_node_t columns = cadre_op_im2col(p, x, (int[]){2, 1}, 3, 1);
    cadre_op_minimize(p, cadre_op_sum_all(p, cadre_op_rownorm(p, columns, 1.5F)));
    cr_assert_eq(cadre_program_finish(p), 0);
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    const uint8_t im2col[] = {96, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
                              0,  0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t rownorm[] = {67, 1, 1, 0, 0, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0};
    const uint8_t rownorm_grad[] = {68, 2, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0};
    const uint8_t col2im[] = {97,  1,   7, 0, 0, 0, 2, 0, 0, 0,   0,   0, 0, 0, 1, 0, 0, 0, 0,
                              0,   0,   0, 3, 0, 0, 0, 0, 0, 0,   0,   1, 0, 0, 0, 0, 0, 0, 0,
                              4,   255, 1, 0, 0, 0, 0, 0, 0, 0,   255, 2, 0, 0, 0, 0, 0, 0, 0,
                              255, 2,   0, 0, 0, 0, 0, 0, 0, 255, 1,   0, 0, 0, 0, 0, 0, 0};
    cr_expect_not_null(memmem(bytes, size_bytes, im2col, sizeof(im2col)));
    cr_expect_not_null(memmem(bytes, size_bytes, rownorm, sizeof(rownorm)));
    cr_expect_not_null(memmem(bytes, size_bytes, rownorm_grad, sizeof(rownorm_grad)));
    cr_expect_not_null(memmem(bytes, size_bytes, col2im, sizeof(col2im)));
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
    cr_assert_eq(decode_changed(4, 3), CADRE_EPROTOCOL);
    cr_assert_str_eq(cadre_error_text(), "program: format 3, not 1 or 2");
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

/* Where the op with `input_count` inputs stands in the bytes: its number, the count, the inputs. */
static size_t
find_op(const uint8_t *bytes, size_t size_bytes, cadre_op_t op, int input_count)
{
    size_t found = 0;
    for (size_t at = 0; at + 6 < size_bytes; at++) {
        bool inputs = bytes[at + 1] == input_count && bytes[at + 4] == 0 && bytes[at + 5] == 0;
        if (bytes[at] == (uint8_t)op && inputs && bytes[at + 2] != 0) {
            cr_assert_eq(found, 0, "more than one place");
            found = at;
        }
    }
    cr_assert_neq(found, 0);
    return found;
}

typedef struct {
    cadre_op_t op;
    int input_count;
    int attribute;
    int64_t value;
    int status;
    const char *text; /* after "node N: " */
} attribute_case_t;

static const attribute_case_t attribute_cases[] = {
    {CADRE_OP_IM2COL, 1, 0, 0, CADRE_EINVALID, "im2col: a window's height of 0 is not in 1..65536"},
    {CADRE_OP_IM2COL, 1, 0, 65536, CADRE_ESHAPE,
     "im2col: a window of 65536x1 does not fit [B,2,2,1] with padding 1"},
    {CADRE_OP_IM2COL, 1, 1, 65537, CADRE_EINVALID,
     "im2col: a window's width of 65537 is not in 1..65536"},
    {CADRE_OP_IM2COL, 1, 1, INT64_MIN, CADRE_EINVALID,
     "im2col: a window's width of -9223372036854775808 is not in 1..65536"},
    {CADRE_OP_IM2COL, 1, 2, 0, CADRE_EINVALID, "im2col: stride of 0 is not in 1..65536"},
    {CADRE_OP_IM2COL, 1, 2, INT64_MAX, CADRE_EINVALID,
     "im2col: stride of 9223372036854775807 is not in 1..65536"},
    {CADRE_OP_IM2COL, 1, 3, -1, CADRE_EINVALID, "im2col: padding of -1 is not in 0..65536"},
    {CADRE_OP_COL2IM, 1, 2, 0, CADRE_EINVALID, "col2im: stride of 0 is not in 1..65536"},
    {CADRE_OP_COL2IM, 1, 3, 0, CADRE_ESHAPE,
     "col2im: [B,3,4,2] are not the columns of [B,2,2,1], which are [B,1,2,2]"},
    {CADRE_OP_ROWNORM, 1, 0, 0x7f800000, CADRE_EINVALID,
     "rownorm: eps must be a finite number, at least 0"},
    {CADRE_OP_ROWNORM, 1, 0, 0xbf800000, CADRE_EINVALID,
     "rownorm: eps must be a finite number, at least 0"},
    {CADRE_OP_ROWNORM, 1, 0, INT64_C(1) << 32, CADRE_EINVALID,
     "rownorm: eps must be a finite number, at least 0"},
    {CADRE_OP_ROWNORM_GRAD, 2, 0, -1, CADRE_EINVALID,
     "rownorm_grad: eps must be a finite number, at least 0"},
};

Test(program_codec, refuses_attributes_that_no_builder_gives)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = model();
    size_t size_bytes = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(attribute_cases); i++) {
        const attribute_case_t *one = &attribute_cases[i];
        cadre_auto(cadre_free) uint8_t *bytes = copy_of(p, &size_bytes);
        size_t at = find_op(bytes, size_bytes, one->op, one->input_count) + 2 +
                    4 * (size_t)one->input_count + 8 * (size_t)one->attribute;
        for (int byte = 0; byte < 8; byte++) {
            bytes[at + (size_t)byte] = (uint8_t)((uint64_t)one->value >> (8 * byte));
        }
        cadre_program_t *q = NULL;
        cr_assert_eq(cadre_program_decode(bytes, size_bytes, &q), one->status, "%s", one->text);
        const char *text = strchr(cadre_error_text(), ':');
        cr_assert_not_null(text);
        cr_assert_str_eq(text + 2, one->text);
    }
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
        cadre_op_result(p, "c", cadre_op_const(p, &tensor));
        cr_assert_eq(cadre_program_finish(p), over ? CADRE_ETOOLARGE : 0);
    }
}
