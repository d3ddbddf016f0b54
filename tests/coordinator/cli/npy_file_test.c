/* Files for NumPy. What they must hold was written by numpy.save. */
#include "coordinator/cli/npy_file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(npy_file, .timeout = 240);

/* Writes the tensor and expects a header of this text, and then its bytes. */
static void
expect_file(const cadre_tensor_t *tensor, const char *text)
{
    char path[] = "/tmp/npy-XXXXXX";
    cr_assert(mkdtemp(path));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(cadre_npy_file_write(folder, "a.npy", tensor), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_npy_file_write(folder, "a.npy", tensor), CADRE_EEXISTS);

    unsigned char bytes[512];
    FILE *file = fdopen(openat(folder, "a.npy", O_RDONLY | O_CLOEXEC), "r");
    cr_assert(file);
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    const size_t numbers = cadre_tensor_size_bytes(tensor);
    cr_assert_eq(size, 128 + numbers);
    cr_expect_arr_eq(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    cr_expect_arr_eq(bytes + 10, text, strlen(text));
    for (size_t i = 10 + strlen(text); i < 127; i++) {
        cr_expect_eq(bytes[i], ' ');
    }
    cr_expect_eq(bytes[127], '\n');
    cr_expect_arr_eq(bytes + 128, tensor->data, numbers);
    unlinkat(folder, "a.npy", 0);
    close(folder);
    rmdir(path);
}

Test(npy_file, has_the_header_that_numpy_writes)
{
    float matrix[] = {1, 2, 3, 4, 5, 6};
    cadre_tensor_t tensor = cadre_tensor_view(CADRE_F32, matrix, (int64_t[]){2, 3}, 2);
    expect_file(&tensor, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    int64_t vector[] = {7, -8};
    tensor = cadre_tensor_view(CADRE_I64, vector, (int64_t[]){2}, 1);
    expect_file(&tensor, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }");
    double number = 0.5;
    tensor = cadre_tensor_view(CADRE_F64, &number, NULL, 0);
    expect_file(&tensor, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }");
    uint8_t byte = 3;
    tensor = cadre_tensor_view(CADRE_U8, &byte, (int64_t[]){1, 1, 1}, 3);
    expect_file(&tensor, "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1), }");
    int32_t none = 0;
    tensor = cadre_tensor_view(CADRE_I32, &none, (int64_t[]){0, 4}, 2);
    expect_file(&tensor, "{'descr': '<i4', 'fortran_order': False, 'shape': (0, 4), }");
}

Test(npy_file, refuses_types_that_numpy_lacks)
{
    uint16_t half = 0;
    cadre_tensor_t tensor = cadre_tensor_view(CADRE_BF16, &half, (int64_t[]){1}, 1);
    cr_expect_eq(cadre_npy_file_write(AT_FDCWD, "never", &tensor), CADRE_EDTYPE);
}

Test(npy_file, says_why_it_cannot_be_written)
{
    float number = 0;
    cadre_tensor_t tensor = cadre_tensor_view(CADRE_F32, &number, NULL, 0);
    cr_expect_eq(cadre_npy_file_write(AT_FDCWD, "no/such/folder.npy", &tensor), CADRE_EIO);
    cr_expect(strstr(cadre_error_text(), "no/such/folder.npy"));
}
