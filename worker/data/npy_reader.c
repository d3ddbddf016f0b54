/*
 * .npy, as numpy.save writes it (numpy/lib/format.py, versions 1 to 3): "\x93NUMPY", two bytes of
 * version, the size of the header in 2 or 4 bytes, the header, which is a Python dictionary such as
 * {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, then the elements.
 */
#include <inttypes.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/array_file.h"
#include "worker/data/number.h"

enum {
    VERSION_AT = 6,
    SIZE_AT = 8,
    HEADER_SIZE_MAX = 4096, /* numpy.save writes 118 bytes for one array */
    WORD_SIZE = 32,         /* of a key or type */
};

/* The header while it is read. */
typedef struct {
    cadre_array_file_t *file;
    const char *text;
    const char *at;
    const char *end;
    uint64_t offset; /* of `text` in the file */
    bool has_type;
    bool has_order;
    bool has_shape;
    bool is_fortran;
    uint64_t order_at; /* where in the file "fortran_order" is */
} header_t;

static uint64_t
place(const header_t *self)
{
    return self->offset + (uint64_t)(self->at - self->text);
}

static void
skip_blanks(header_t *self)
{
    while (self->at < self->end && (*self->at == ' ' || *self->at == '\n')) {
        self->at++;
    }
}

/* Skips blanks and this character; returns false where another one stands. */
static bool
take(header_t *self, char wanted)
{
    skip_blanks(self);
    if (self->at == self->end || *self->at != wanted) {
        return false;
    }
    self->at++;
    return true;
}

static int
refuse_header(const header_t *self)
{
    return cadre_array_file_refuse(self->file, place(self),
                                   "this is no header as numpy.save writes it");
}

/* Reads a string in quotes. */
static int
read_word(header_t *self, char word[WORD_SIZE])
{
    skip_blanks(self);
    const char quote = self->at < self->end ? *self->at : '\0';
    const char *first = self->at + 1;
    const char *last =
        quote == '\'' || quote == '"' ? memchr(first, quote, (size_t)(self->end - first)) : NULL;
    if (!last || last - first >= WORD_SIZE) {
        return refuse_header(self);
    }
    memcpy(word, first, (size_t)(last - first));
    word[last - first] = '\0';
    self->at = last + 1;
    return 0;
}

/* Reads the type of the elements: byte order, kind and bytes, such as "<f4". */
static int
read_type(header_t *self)
{
    static const struct {
        const char *word;
        cadre_element_t type;
    } types[] = {
        {"b1", CADRE_ELEMENT_U8},  {"u1", CADRE_ELEMENT_U8},  {"i1", CADRE_ELEMENT_I8},
        {"u2", CADRE_ELEMENT_U16}, {"i2", CADRE_ELEMENT_I16}, {"u4", CADRE_ELEMENT_U32},
        {"i4", CADRE_ELEMENT_I32}, {"u8", CADRE_ELEMENT_U64}, {"i8", CADRE_ELEMENT_I64},
        {"f4", CADRE_ELEMENT_F32}, {"f8", CADRE_ELEMENT_F64},
    };
    char word[WORD_SIZE];
    skip_blanks(self);
    const uint64_t at = place(self);
    if (self->at < self->end && *self->at == '[') {
        return cadre_array_file_refuse(self->file, at,
                                       "a structured type: save each field as an array");
    }
    int status = read_word(self, word);
    if (status < 0) {
        return status;
    }

    for (size_t i = 0; word[0] && strchr("<>|", word[0]) && i < CADRE_COUNT_OF(types); i++) {
        if (strcmp(word + 1, types[i].word) == 0) {
            self->file->type = types[i].type;
            self->file->is_big_endian = word[0] == '>';
            self->has_type = true;
            return 0;
        }
    }
    return cadre_array_file_refuse(self->file, at,
                                   "type '%s' is not read: of bool, int, uint and float64 or "
                                   "float32 are those of 8 to 64 bits",
                                   word);
}

/* Reads True or False. */
static int
read_order(header_t *self)
{
    static const char *const words[] = {"False", "True"};
    skip_blanks(self);
    self->order_at = place(self);
    for (size_t i = 0; i < CADRE_COUNT_OF(words); i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(self->end - self->at) >= length && memcmp(self->at, words[i], length) == 0) {
            self->at += length;
            self->is_fortran = i == 1;
            self->has_order = true;
            return 0;
        }
    }
    return refuse_header(self);
}

/* Reads the shape: (), (3,) or (3, 4). */
static int
read_shape(header_t *self)
{
    cadre_array_file_t *file = self->file;
    skip_blanks(self);
    file->rank_at = place(self);
    file->rank = 0;
    if (!take(self, '(')) {
        return refuse_header(self);
    }
    while (!take(self, ')')) {
        uint64_t size = 0;
        const uint64_t at = place(self);
        const char *after = cadre_number_scan_index(self->at, self->end, INT64_MAX, &size);
        if (!after) {
            return refuse_header(self);
        }
        if (file->rank < CADRE_RANK_MAX) {
            file->shape[file->rank] = (int64_t)size;
            file->shape_at[file->rank] = at;
        }
        file->rank++;
        self->at = after;
        if (!take(self, ',')) {
            skip_blanks(self);
            if (self->at == self->end || *self->at != ')') {
                return refuse_header(self);
            }
        }
    }
    self->has_shape = true;
    if (file->rank < 1 || file->rank > CADRE_RANK_MAX) {
        return cadre_array_file_refuse(file, file->rank_at, "%d dimensions, allowed are 1 to %d",
                                       file->rank, CADRE_RANK_MAX);
    }
    return 0;
}

/* Reads one key with its value. */
static int
read_entry(header_t *self)
{
    static const struct {
        const char *key;
        int (*read)(header_t *self);
    } keys[] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};
    char word[WORD_SIZE];
    int status = read_word(self, word);
    if (status < 0) {
        return status;
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        if (strcmp(word, keys[i].key) == 0) {
            return take(self, ':') ? keys[i].read(self) : refuse_header(self);
        }
    }
    return refuse_header(self);
}

/* Reads the dictionary, which must have all three keys. */
static int
read_dictionary(header_t *self)
{
    if (!take(self, '{')) {
        return refuse_header(self);
    }
    while (!take(self, '}')) {
        int status = read_entry(self);
        if (status < 0) {
            return status;
        }
        skip_blanks(self);
        if (!take(self, ',') && (self->at == self->end || *self->at != '}')) {
            return refuse_header(self);
        }
    }
    skip_blanks(self);
    if (self->at != self->end || !self->has_type || !self->has_order || !self->has_shape) {
        return refuse_header(self);
    }
    if (self->is_fortran && self->file->rank > 1) {
        return cadre_array_file_refuse(self->file, self->order_at,
                                       "the array is in Fortran order, column by column: save "
                                       "numpy.ascontiguousarray of it");
    }
    return 0;
}

/* Reads what comes before the header, and gives the header's size. */
static int
read_preamble(cadre_array_file_t *self, uint64_t *size)
{
    static const uint8_t magic[VERSION_AT] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    uint8_t bytes[SIZE_AT + 4] = {0};
    int status = cadre_array_file_read(self, bytes, SIZE_AT);
    if (status < 0) {
        return status;
    }
    if (memcmp(bytes, magic, sizeof(magic)) != 0) {
        return cadre_array_file_refuse(self, 0,
                                       "not a .npy file: it does not begin with "
                                       "\\x93NUMPY");
    }
    const uint8_t version = bytes[VERSION_AT];
    if (version < 1 || version > 3) {
        return cadre_array_file_refuse(self, VERSION_AT,
                                       "version %d of the format, known are 1 to 3", version);
    }

    status = cadre_array_file_read(self, bytes + SIZE_AT, version == 1 ? 2 : 4);
    if (status < 0) {
        return status;
    }
    const uint8_t *at = bytes + SIZE_AT;
    *size = at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
    if (*size > HEADER_SIZE_MAX) {
        return cadre_array_file_refuse(self, SIZE_AT, "a header of %" PRIu64 " bytes, over %d",
                                       *size, HEADER_SIZE_MAX);
    }
    return 0;
}

static int
read_header(cadre_array_file_t *self)
{
    char text[HEADER_SIZE_MAX];
    uint64_t size = 0;
    int status = read_preamble(self, &size);
    if (status < 0) {
        return status;
    }
    header_t header = {
        .file = self, .text = text, .at = text, .offset = cadre_data_file_offset(self->file)};
    status = cadre_array_file_read(self, text, (size_t)size);
    if (status < 0) {
        return status;
    }
    header.end = text + size;
    return read_dictionary(&header);
}

int
cadre_npy_begin(cadre_reader_t *self)
{
    return cadre_array_files_begin(self, read_header);
}

int
cadre_npy_next(cadre_reader_t *self)
{
    return cadre_array_files_next(self);
}

void
cadre_npy_end(cadre_reader_t *self)
{
    cadre_array_files_end(self);
}
