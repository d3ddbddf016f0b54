/*
 * program_codec - a program as bytes.
 *
 * Little-endian: "CDRP", u16 format, u16 zero, name, u8 symbol count, names of symbols, u32 node
 * count, nodes, u16 push count, pushes (u16 variable, u32 node), u8 result count, results (name,
 * u32 node). A name is u8 length and bytes. A shape is u8 rank and per axis u8 symbol (255 for
 * none) and i64 factor. A node is u8 op, u8 input count, u32 per input and then, for an arg: name,
 * u8 dtype, shape; for a var: name, u8 dtype (format 2 only), shape; for a const: u8 dtype, shape,
 * data; for others: one i64 per attribute that the op has, and its shape where the op carries one.
 *
 * Format 1 has variables of f32 only. A program that has others is in format 2, and no other is: so
 * programs that an older build can run have the bytes that it knows.
 *
 * Nothing is stored that can be inferred, so there is nothing to contradict: decoding adds the
 * nodes one by one by the same rules as building, and the tables of arguments, variables and
 * constants arise on the way. An encoding is unique, so its hash identifies the program.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/graph/program_data.h"
#include "common/graph/program_hash.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

enum { FORMAT_F32 = 1, FORMAT_DTYPES = 2, NO_SYMBOL = 255 };

static const uint8_t magic[4] = {'C', 'D', 'R', 'P'};

/* ---- writing ---- */

typedef struct {
    uint8_t *bytes;
    size_t size_bytes;
    size_t room;
} writer_t;

/* Appends bytes to the encoding, which grows by doubling. */
static void
put_bytes(writer_t *writer, const void *bytes, size_t size_bytes)
{
    if (writer->room - writer->size_bytes < size_bytes) {
        writer->room = 2 * (writer->room + size_bytes);
        writer->bytes = cadre_realloc(writer->bytes, writer->room, 1);
    }
    if (size_bytes > 0) {
        memcpy(writer->bytes + writer->size_bytes, bytes, size_bytes);
    }
    writer->size_bytes += size_bytes;
}

/* Appends the lowest `width` bytes of a number, little-endian. */
static void
put(writer_t *writer, uint64_t value, int width)
{
    uint8_t bytes[8];
    for (int i = 0; i < width; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    put_bytes(writer, bytes, (size_t)width);
}

static void
put_name(writer_t *writer, const char *name)
{
    size_t length = strlen(name);
    put(writer, length, 1);
    put_bytes(writer, name, length);
}

/* Appends a shape: its rank and, for each axis, symbol and factor. */
static void
put_shape(writer_t *writer, const cadre_extents_t *shape)
{
    put(writer, (uint64_t)shape->rank, 1);
    for (int i = 0; i < shape->rank; i++) {
        int symbol = shape->extents[i].symbol;
        put(writer, symbol < 0 ? NO_SYMBOL : (uint64_t)symbol, 1);
        put(writer, (uint64_t)shape->extents[i].factor, 8);
    }
}

/* Returns the bits of an element of a constant, which has 4 or 8 bytes. */
static uint64_t
load(const void *element, size_t width)
{
    uint32_t half = 0;
    uint64_t whole = 0;
    if (width == sizeof(half)) {
        memcpy(&half, element, sizeof(half));
        return half;
    }
    memcpy(&whole, element, sizeof(whole));
    return whole;
}

/* Appends the elements of a constant, little-endian on every machine. */
static void
put_constant(writer_t *writer, const cadre_tensor_t *tensor)
{
    const uint8_t *data = tensor->data;
    size_t size_bytes = cadre_tensor_size_bytes(tensor);
    size_t width = cadre_dtype_size(tensor->dtype);
    for (size_t at = 0; at < size_bytes; at += width) {
        put(writer, load(data + at, width), (int)width);
    }
}

/* Returns the format that a program is encoded in. */
static int
format_of(const cadre_program_t *program)
{
    for (int i = 0; i < program->variable_count; i++) {
        if (program->variables[i].dtype != CADRE_F32) {
            return FORMAT_DTYPES;
        }
    }
    return FORMAT_F32;
}

/* Writes a node: op, inputs, and what its op needs to be built again. */
static void
put_node(writer_t *writer, const cadre_program_t *program, int format,
         const cadre_program_node_t *node)
{
    const cadre_op_info_t *info = cadre_op_info((uint64_t)node->op);
    int64_t index = node->attributes[CADRE_LEAF_INDEX];
    put(writer, (uint64_t)node->op, 1);
    put(writer, (uint64_t)node->input_count, 1);
    for (int i = 0; i < node->input_count; i++) {
        put(writer, (uint64_t)node->inputs[i], 4);
    }
    if (node->op == CADRE_OP_ARG) {
        put_name(writer, program->arguments[index].name);
        put(writer, (uint64_t)node->dtype, 1);
        put_shape(writer, &node->shape);
    } else if (node->op == CADRE_OP_VAR) {
        put_name(writer, program->variables[index].name);
        if (format == FORMAT_DTYPES) {
            put(writer, (uint64_t)node->dtype, 1);
        }
        put_shape(writer, &node->shape);
    } else if (node->op == CADRE_OP_CONST) {
        put(writer, (uint64_t)node->dtype, 1);
        put_shape(writer, &node->shape);
        put_constant(writer, &program->constants[index]);
    } else {
        for (int i = 0; i < info->attributes; i++) {
            put(writer, (uint64_t)node->attributes[i], 8);
        }
        if (info->carries_shape) {
            put_shape(writer, &node->shape);
        }
    }
}

/* Encodes a program that is complete: sets its bytes, size_bytes and hash. Fails with
 * CADRE_ETOOLARGE beyond CADRE_PROGRAM_SIZE_MAX. */
static int
encode(cadre_program_t *self)
{
    writer_t writer = {0};
    const int format = format_of(self);
    put_bytes(&writer, magic, sizeof(magic));
    put(&writer, (uint64_t)format, 2);
    put(&writer, 0, 2);
    put_name(&writer, self->name);
    put(&writer, (uint64_t)self->symbol_count, 1);
    for (int i = 0; i < self->symbol_count; i++) {
        put_name(&writer, self->symbols[i]);
    }
    put(&writer, (uint64_t)self->node_count, 4);
    for (int i = 0; i < self->node_count; i++) {
        put_node(&writer, self, format, &self->nodes[i]);
    }
    put(&writer, (uint64_t)self->push_count, 2);
    for (int i = 0; i < self->push_count; i++) {
        put(&writer, (uint64_t)self->pushes[i].variable, 2);
        put(&writer, (uint64_t)self->pushes[i].node, 4);
    }
    put(&writer, (uint64_t)self->result_count, 1);
    for (int i = 0; i < self->result_count; i++) {
        put_name(&writer, self->results[i].name);
        put(&writer, (uint64_t)self->results[i].node, 4);
    }
    if (writer.size_bytes > CADRE_PROGRAM_SIZE_MAX) {
        free(writer.bytes);
        return cadre_fail(CADRE_ETOOLARGE, "the program has %zu bytes, not at most %d",
                          writer.size_bytes, CADRE_PROGRAM_SIZE_MAX);
    }
    self->bytes = writer.bytes;
    self->size_bytes = writer.size_bytes;
    self->hash = cadre_program_hash_bytes(self->bytes, self->size_bytes);
    return 0;
}

/* ---- reading ---- */

/* A reader of bytes. A read beyond the end gives 0 and sets `broken`, so that a whole record can be
 * read before that is checked once. */
typedef struct {
    const uint8_t *bytes;
    size_t left;
    int format;
    bool broken;
} reader_t;

typedef struct {
    char text[UINT8_MAX + 1];
} name_t;

/* Returns the next bytes, and moves behind them. NULL, and `broken` is set, when fewer are left. */
static const uint8_t *
get_bytes(reader_t *reader, size_t size_bytes)
{
    if (reader->broken || size_bytes > reader->left) {
        reader->broken = true;
        return NULL;
    }
    const uint8_t *bytes = reader->bytes;
    reader->bytes += size_bytes;
    reader->left -= size_bytes;
    return bytes;
}

/* Returns the next `width` bytes as a number, little-endian; 0 when they are not there. */
static uint64_t
get(reader_t *reader, int width)
{
    const uint8_t *bytes = get_bytes(reader, (size_t)width);
    uint64_t value = 0;
    for (int i = 0; bytes && i < width; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

/* Reads a name into `name`, and returns its text. A zero byte in it breaks the reader, since the
 * text would end there. */
static const char *
get_name(reader_t *reader, name_t *name)
{
    size_t length = (size_t)get(reader, 1);
    const uint8_t *bytes = get_bytes(reader, length);
    if (!bytes || memchr(bytes, '\0', length)) {
        reader->broken = true;
        length = 0;
    } else {
        memcpy(name->text, bytes, length);
    }
    name->text[length] = '\0';
    return name->text;
}

/* Reads a shape; a rank that is too large breaks the reader. */
static cadre_extents_t
get_shape(reader_t *reader)
{
    cadre_extents_t shape = {.rank = (int)get(reader, 1)};
    if (shape.rank > CADRE_PROGRAM_RANK_MAX) {
        reader->broken = true;
        shape.rank = 0;
    }
    for (int i = 0; i < shape.rank; i++) {
        uint64_t symbol = get(reader, 1);
        shape.extents[i].symbol = symbol == NO_SYMBOL ? CADRE_EXTENT_NO_SYMBOL : (int)symbol;
        shape.extents[i].factor = (int64_t)get(reader, 8);
    }
    return shape;
}

static int
malformed(const char *what)
{
    return cadre_fail(CADRE_EMALFORMED, "program: %s", what);
}

/* Reads the dtype of a leaf; `broken` is set for one that programs do not have, and for bf16 where
 * the leaf is a `value`, a variable or a constant. */
static cadre_dtype_t
get_dtype(reader_t *reader, bool value)
{
    uint64_t number = get(reader, 1);
    if (!cadre_dtype_valid(number) || !cadre_dtype_traits((cadre_dtype_t)number)->is_of_programs ||
        (value && number == CADRE_BF16)) {
        reader->broken = true;
        return CADRE_F32;
    }
    return (cadre_dtype_t)number;
}

/* Copies the shape of a variable or constant, which has no symbols. One that has, or that is too
 * large, breaks the reader. */
static void
numbers_only(reader_t *reader, const cadre_extents_t *shape, int64_t *numbers)
{
    int64_t factor = 0;
    for (int i = 0; i < shape->rank; i++) {
        numbers[i] = shape->extents[i].factor;
        if (shape->extents[i].symbol >= 0 || numbers[i] < 1) {
            reader->broken = true;
            return;
        }
    }
    if (cadre_extents_factor(shape, &factor) < 0) {
        reader->broken = true;
    }
}

/* Reads what follows the op and inputs of an arg node, and adds the argument. */
static int
get_argument(reader_t *reader, cadre_program_t *program)
{
    name_t name;
    get_name(reader, &name);
    cadre_dtype_t dtype = get_dtype(reader, false);
    cadre_extents_t shape = get_shape(reader);
    int32_t index = 0;
    return reader->broken ? malformed("a broken arg")
                          : cadre_program_add_argument(program, name.text, dtype, &shape, &index);
}

/* Reads what follows the op and inputs of a var node, and adds the variable. */
static int
get_variable(reader_t *reader, cadre_program_t *program)
{
    name_t name;
    get_name(reader, &name);
    cadre_dtype_t dtype = reader->format == FORMAT_DTYPES ? get_dtype(reader, true) : CADRE_F32;
    cadre_extents_t shape = get_shape(reader);
    int64_t numbers[CADRE_PROGRAM_RANK_MAX] = {0};
    numbers_only(reader, &shape, numbers);
    int32_t index = 0;
    return reader->broken ? malformed("a broken var")
                          : cadre_program_add_variable(program, name.text, dtype, &shape, &index);
}

/* Writes the bits of an element of a constant, which has 4 or 8 bytes. */
static void
store(void *element, uint64_t bits, size_t width)
{
    uint32_t half = (uint32_t)bits;
    if (width == sizeof(half)) {
        memcpy(element, &half, sizeof(half));
    } else {
        memcpy(element, &bits, sizeof(bits));
    }
}

/* Reads what follows the op and inputs of a const node, and adds the constant. */
static int
get_constant(reader_t *reader, cadre_program_t *program)
{
    cadre_dtype_t dtype = get_dtype(reader, true);
    cadre_extents_t shape = get_shape(reader);
    int64_t numbers[CADRE_PROGRAM_RANK_MAX] = {0};
    numbers_only(reader, &shape, numbers);
    size_t size_bytes = 0;
    /* Memory is taken only for bytes that are there: the size is not to be trusted. */
    if (reader->broken || cadre_shape_size(dtype, numbers, shape.rank, NULL, &size_bytes) < 0 ||
        size_bytes > reader->left) {
        return malformed("a broken const");
    }
    cadre_auto(cadre_tensor_fini) cadre_tensor_t tensor = {0};
    int status = cadre_tensor_init(&tensor, dtype, numbers, shape.rank);
    if (status < 0) {
        return status;
    }
    uint8_t *data = tensor.data;
    size_t width = cadre_dtype_size(dtype);
    for (size_t at = 0; at < size_bytes; at += width) {
        store(data + at, get(reader, (int)width), width);
    }
    int32_t index = 0;
    return cadre_program_add_constant(program, &tensor, &index);
}

/* Reads the attributes of a node that is no leaf, and its shape if the op carries one; adds the
 * node. */
static int
get_operation(reader_t *reader, cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_op_info_t *info = cadre_op_info((uint64_t)node->op);
    for (int i = 0; i < info->attributes; i++) {
        node->attributes[i] = (int64_t)get(reader, 8);
    }
    if (info->carries_shape) {
        node->shape = get_shape(reader);
    }
    int32_t index = 0;
    return reader->broken ? malformed("it ends inside a node")
                          : cadre_program_add_node(program, node, &index);
}

/* Reads a node, whose inputs must be nodes before it, and adds it to the program. */
static int
get_node(reader_t *reader, cadre_program_t *program)
{
    uint64_t number = get(reader, 1);
    const cadre_op_info_t *info = cadre_op_info(number);
    cadre_program_node_t node = {.op = (cadre_op_t)number, .input_count = (int)get(reader, 1)};
    if (reader->broken || !info) {
        return malformed("no such operation");
    }
    if (node.input_count < info->inputs_min || node.input_count > info->inputs_max) {
        return malformed("a wrong number of inputs");
    }
    for (int i = 0; i < node.input_count; i++) {
        uint64_t input = get(reader, 4);
        if (input >= (uint64_t)program->node_count) {
            return malformed("an input is not an earlier node");
        }
        node.inputs[i] = (int32_t)input;
    }
    switch (node.op) {
    case CADRE_OP_ARG:
        return get_argument(reader, program);
    case CADRE_OP_VAR:
        return get_variable(reader, program);
    case CADRE_OP_CONST:
        return get_constant(reader, program);
    default: /* every other op has the same form */
        return get_operation(reader, program, &node);
    }
}

/* Reads the pushes and results of a program, and adds them to it. */
static int
get_outputs(reader_t *reader, cadre_program_t *program)
{
    int status = 0;
    uint64_t push_count = get(reader, 2);
    for (uint64_t i = 0; i < push_count && status == 0; i++) {
        uint64_t variable = get(reader, 2);
        uint64_t node = get(reader, 4);
        if (reader->broken || variable >= (uint64_t)program->variable_count ||
            node >= (uint64_t)program->node_count) {
            return malformed("a broken push");
        }
        status = cadre_program_add_push(program, (int)variable, (int32_t)node);
    }
    uint64_t result_count = get(reader, 1);
    for (uint64_t i = 0; i < result_count && status == 0; i++) {
        name_t name;
        get_name(reader, &name);
        uint64_t node = get(reader, 4);
        if (reader->broken || node >= (uint64_t)program->node_count) {
            return malformed("a broken result");
        }
        status = cadre_program_add_result(program, name.text, (int32_t)node);
    }
    if (status == 0 && (reader->broken || reader->left > 0)) {
        return malformed(reader->broken ? "it ends too early" : "something follows its end");
    }
    return status;
}

/* Reads the head of an encoded program; gives an empty program with its name and symbols. */
static int
get_head(reader_t *reader, cadre_program_t **out)
{
    const uint8_t *start = get_bytes(reader, sizeof(magic));
    if (!start || memcmp(start, magic, sizeof(magic)) != 0) {
        return malformed("not a program");
    }
    uint64_t format = get(reader, 2);
    if (!reader->broken && format != FORMAT_F32 && format != FORMAT_DTYPES) {
        return cadre_fail(CADRE_EPROTOCOL, "program: format %" PRIu64 ", not %d or %d", format,
                          FORMAT_F32, FORMAT_DTYPES);
    }
    reader->format = (int)format;
    uint64_t zero = get(reader, 2);
    name_t name;
    get_name(reader, &name);
    if (reader->broken || zero != 0) {
        return malformed("a broken head");
    }
    cadre_program_t *program = cadre_program_new(name.text);
    int status = program->status; /* a bad name */
    uint64_t symbol_count = get(reader, 1);
    for (uint64_t i = 0; i < symbol_count && status == 0; i++) {
        int index = 0;
        get_name(reader, &name);
        status = reader->broken ? malformed("a broken symbol")
                                : cadre_program_add_symbol(program, name.text, &index);
    }
    if (status < 0) {
        cadre_program_destroy(&program);
        return status;
    }
    *out = program;
    return 0;
}

/* Makes a program of untrusted bytes: adds node by node, by the rules by which programs are built,
 * and finishes it, which sets its bytes and hash. */
int
cadre_program_decode(const uint8_t *bytes, size_t size_bytes, cadre_program_t **out)
{
    if (size_bytes > CADRE_PROGRAM_SIZE_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "the program has %zu bytes, not at most %d", size_bytes,
                          CADRE_PROGRAM_SIZE_MAX);
    }
    reader_t reader = {.bytes = bytes, .left = size_bytes};
    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    int status = get_head(&reader, &program);
    if (status < 0) {
        return status;
    }
    uint64_t node_count = get(&reader, 4);
    for (uint64_t i = 0; i < node_count; i++) {
        status = get_node(&reader, program);
        if (status < 0) {
            return cadre_fail_within(status, "node %" PRIu64, i);
        }
    }
    status = get_outputs(&reader, program);
    if (status < 0) {
        return status;
    }
    if (reader.format != format_of(program)) {
        return malformed("in another format than its variables need");
    }

    status = cadre_program_check(program);
    if (status < 0) {
        return status;
    }

    /* Encodes again, which gives the bytes that were decoded, and their hash. */
    status = cadre_program_finish(program);
    if (status < 0) {
        return status;
    }

    *out = program;
    program = NULL;
    return 0;
}

/* --- the end of building --- */

/* Ends building: checks and encodes the program, and fails with its first mistake if there is one.
 * May be called again. */
int
cadre_program_finish(cadre_program_t *self)
{
    if (self->finished) {
        return 0;
    }
    if (self->status == 0 && self->scope_count > 0) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID, "the scope is not ended"));
    }
    if (self->status == 0) {
        int status = cadre_program_check(self);
        status = status < 0 ? status : encode(self);
        if (status < 0) {
            cadre_program_mistake(self, status);
        }
    }
    if (self->status < 0) {
        return cadre_fail(self->status, "%s", self->text);
    }
    self->finished = true;
    return 0;
}

/* --- another program of the same nodes --- */

static void
drop_results(cadre_program_t *self)
{
    for (int i = 0; i < self->result_count; i++) {
        free(self->results[i].name);
    }
    self->result_count = 0;
}

/* Makes a copy of a finished program with other results: the values of `count` of its nodes, named
 * "0", "1" and so on. The copy is decoded from the bytes, and finished again for bytes and a hash
 * of its own. */
int
cadre_program_observe(const cadre_program_t *self, const int32_t *nodes, int count,
                      cadre_program_t **out)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *copy = NULL;
    int status = cadre_program_decode(self->bytes, self->size_bytes, &copy);
    if (status < 0) {
        return status;
    }

    drop_results(copy);
    for (int i = 0; status == 0 && i < count; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        status = cadre_program_add_result(copy, name, nodes[i]);
    }
    if (status < 0) {
        return status;
    }

    cadre_free(&copy->bytes); /* cadre_program_finish encodes the changed program */
    copy->finished = false;
    status = cadre_program_finish(copy);
    if (status < 0) {
        return status;
    }

    *out = copy;
    copy = NULL;
    return 0;
}
