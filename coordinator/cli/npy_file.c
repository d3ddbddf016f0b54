#include "coordinator/cli/npy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    MAGIC_SIZE = 10, /* "\x93NUMPY", two bytes of version, two of the header's size */
    HEADER_MAX = 512,
    ALIGNMENT = 64, /* of the first number, in the file */
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they are in memory");

/* Returns NumPy's word for the type; NULL: it has none. */
static const char *
type_word(cadre_dtype_t dtype)
{
    switch (dtype) {
    case CADRE_F32:
        return "<f4";
    case CADRE_F64:
        return "<f8";
    case CADRE_I32:
        return "<i4";
    case CADRE_I64:
        return "<i8";
    case CADRE_U8:
        return "|u1";
    default:
        return NULL;
    }
}

/* Writes all that stands in front of the numbers, padded so that they are aligned. */
static int
write_header(FILE *file, const cadre_tensor_t *tensor, const char *type)
{
    char shape[HEADER_MAX / 2] = "";
    size_t end = 0;
    for (int i = 0; i < tensor->rank; i++) {
        const char *before = i > 0 ? ", " : "";
        const char *after = tensor->rank == 1 ? "," : ""; /* Python's tuples: (), (3,), (3, 4) */
        end += (size_t)snprintf(shape + end, sizeof(shape) - end, "%s%" PRId64 "%s", before,
                                tensor->shape[i], after);
    }

    char header[HEADER_MAX];
    int length = snprintf(header, sizeof(header),
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    const int size = (MAGIC_SIZE + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - MAGIC_SIZE;
    cadre_assert(size <= HEADER_MAX);
    const unsigned char magic[MAGIC_SIZE] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)size, (unsigned char)(size >> 8)};
    return fwrite(magic, 1, sizeof(magic), file) == sizeof(magic) &&
                   fprintf(file, "%-*s\n", size - 1, header) == size
               ? 0
               : -1;
}

/* Writes header and numbers, and closes the file. */
static int
write_all(FILE *file, const cadre_tensor_t *tensor, const char *type)
{
    const size_t size_bytes = cadre_tensor_size_bytes(tensor);
    int failed = write_header(file, tensor, type);
    if (!failed && size_bytes > 0) {
        failed = fwrite(tensor->data, 1, size_bytes, file) != size_bytes;
    }
    return (fclose(file) != 0) | failed ? -1 : 0;
}

int
cadre_npy_file_write(int folder, const char *name, const cadre_tensor_t *tensor)
{
    const char *type = type_word(tensor->dtype);
    if (!type) {
        return cadre_fail(CADRE_EDTYPE, "%s: NumPy has no %s", name,
                          cadre_dtype_text(tensor->dtype));
    }

    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        const int error = errno;
        if (fd >= 0) {
            close(fd);
        }
        if (error == EEXIST) {
            return cadre_fail(CADRE_EEXISTS, "%s exists, and is not overwritten", name);
        }
        return cadre_fail(CADRE_EIO, "%s: %s", name, strerror(error));
    }
    if (write_all(file, tensor, type) < 0) {
        const int error = errno;
        unlinkat(folder, name, 0);
        return cadre_fail(CADRE_EIO, "%s: %s", name, strerror(error));
    }
    return 0;
}
