#include "coordinator/cli/npy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
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

int
cadre_output_create(int folder, const char *name, FILE **out)
{
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
    *out = file;
    return 0;
}

int
cadre_output_end(int folder, const char *name, int status, FILE **file_p)
{
    if (!*file_p) {
        return status;
    }
    errno = 0;
    const bool failed = ferror(*file_p);
    if ((fclose(*file_p) != 0 || failed) && status == 0) {
        status = cadre_fail(CADRE_EIO, "%s: %s", name, errno ? strerror(errno) : "not written");
    }
    *file_p = NULL;
    if (status < 0) {
        unlinkat(folder, name, 0);
    }
    return status;
}

int
cadre_npy_file_create(int folder, const char *name, const char *type, const cadre_tensor_t *shape,
                      FILE **out)
{
    FILE *file = NULL;
    int status = cadre_output_create(folder, name, &file);
    if (status < 0) {
        return status;
    }
    if (write_header(file, shape, type) < 0) {
        return cadre_output_end(folder, name,
                                cadre_fail(CADRE_EIO, "%s: %s", name, strerror(errno)), &file);
    }
    *out = file;
    return 0;
}

int
cadre_npy_file_write(int folder, const char *name, const cadre_tensor_t *tensor)
{
    const char *type = type_word(tensor->dtype);
    if (!type) {
        return cadre_fail(CADRE_EDTYPE, "%s: NumPy has no %s", name,
                          cadre_dtype_text(tensor->dtype));
    }

    FILE *file = NULL;
    const size_t size_bytes = cadre_tensor_size_bytes(tensor);
    int status = cadre_npy_file_create(folder, name, type, tensor, &file);
    if (status == 0 && size_bytes > 0 && fwrite(tensor->data, 1, size_bytes, file) != size_bytes) {
        status = cadre_fail(CADRE_EIO, "%s: %s", name, strerror(errno));
    }
    return cadre_output_end(folder, name, status, &file);
}
