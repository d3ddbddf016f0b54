/*
 * IDX (LeCun, the MNIST page): bytes 0 0 type rank, `rank` big-endian u32 dimensions, big-endian
 * elements.
 */
#include <inttypes.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/array_file.h"

enum { RANK_AT = 3, SHAPE_AT = 4, DIMENSION_SIZE = 4 };

/* Gives the type of elements that a byte of the header stands for. */
static bool
find_type(uint8_t code, cadre_element_t *out)
{
    static const struct {
        uint8_t code;
        cadre_element_t type;
    } types[] = {{8, CADRE_ELEMENT_U8},   {9, CADRE_ELEMENT_I8},   {11, CADRE_ELEMENT_I16},
                 {12, CADRE_ELEMENT_I32}, {13, CADRE_ELEMENT_F32}, {14, CADRE_ELEMENT_F64}};
    for (size_t i = 0; i < CADRE_COUNT_OF(types); i++) {
        if (types[i].code == code) {
            *out = types[i].type;
            return true;
        }
    }
    return false;
}

/* Reads the dimensions. */
static int
read_shape(cadre_array_file_t *self)
{
    uint8_t bytes[DIMENSION_SIZE * CADRE_RANK_MAX];
    int status = cadre_array_file_read(self, bytes, (size_t)self->rank * DIMENSION_SIZE);
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < self->rank; i++) {
        const uint8_t *at = bytes + (size_t)i * DIMENSION_SIZE;
        self->shape[i] = (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
        self->shape_at[i] = SHAPE_AT + (uint64_t)i * DIMENSION_SIZE;
    }
    return 0;
}

/* Reads the header: two zeros, type of the elements, number of dimensions, dimensions. */
static int
read_header(cadre_array_file_t *self)
{
    uint8_t magic[SHAPE_AT];
    int status = cadre_array_file_read(self, magic, sizeof(magic));
    if (status < 0) {
        return status;
    }

    if (magic[0] != 0 || magic[1] != 0) {
        return cadre_array_file_refuse(self, 0,
                                       "not an IDX file: it begins with %02x %02x, not with 00 00",
                                       magic[0], magic[1]);
    }

    if (!find_type(magic[2], &self->type)) {
        return cadre_array_file_refuse(self, 2, "unknown element type 0x%02x", magic[2]);
    }

    self->is_big_endian = true;
    self->rank = magic[RANK_AT];
    self->rank_at = RANK_AT;
    if (self->rank < 1 || self->rank > CADRE_RANK_MAX) {
        return cadre_array_file_refuse(self, RANK_AT, "%d dimensions, allowed are 1 to %d",
                                       self->rank, CADRE_RANK_MAX);
    }

    return read_shape(self);
}

int
cadre_idx_begin(cadre_reader_t *self)
{
    return cadre_array_files_begin(self, read_header);
}

int
cadre_idx_next(cadre_reader_t *self)
{
    return cadre_array_files_next(self);
}

void
cadre_idx_end(cadre_reader_t *self)
{
    cadre_array_files_end(self);
}
