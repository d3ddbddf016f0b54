#include "common/tensor/row_chunks.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(row_chunks, .timeout = 240);

enum { ROWS = 100000, FEATURES = 3 };

Test(row_chunks, keeps_features_and_labels_across_chunks)
{
    cadre_auto(cadre_free) float *x = cadre_calloc(ROWS * FEATURES, sizeof(*x));
    cadre_auto(cadre_free) int32_t *y = cadre_calloc(ROWS, sizeof(*y));
    for (int i = 0; i < ROWS * FEATURES; i++) {
        x[i] = (float)i;
    }
    for (int i = 0; i < ROWS; i++) {
        y[i] = -i;
    }

    cadre_row_chunks_t rows = {0};
    cr_assert_eq(cadre_row_chunks_copy(x, y, ROWS, FEATURES, CADRE_I32, &rows), 0);
    cr_expect_eq(rows.count, 2, "1.6 MB in chunks of 1 MiB, and the labels begin in the second");
    cr_expect_eq(rows.size_bytes, ROWS * (FEATURES + 1) * 4);
    cr_expect_eq(cadre_row_chunks_rows(&rows), ROWS);

    const size_t x_size = (size_t)ROWS * FEATURES * sizeof(*x);
    cadre_auto(cadre_free) char *bytes = cadre_calloc(rows.size_bytes, 1);
    for (size_t at = 0; at < rows.size_bytes; at += 4000) { /* does not divide a chunk */
        size_t size = rows.size_bytes - at < 4000 ? (size_t)(rows.size_bytes - at) : 4000;
        cadre_row_chunks_read(&rows, at, size, bytes + at);
    }
    cr_expect(memcmp(bytes, x, x_size) == 0);
    cr_expect(memcmp(bytes + x_size, y, ROWS * sizeof(*y)) == 0);
    cadre_row_chunks_fini(&rows);
    cr_expect_eq(rows.count, 0);
    cadre_row_chunks_fini(&rows);
}

Test(row_chunks, refuses_more_than_the_limit)
{
    cadre_row_chunks_t rows = {.features = 1, .label = CADRE_F32};
    const float one = 1;
    const int64_t most = CADRE_MEMORY_ROWS_SIZE_MAX / 8;
    cr_expect_eq(cadre_row_chunks_copy(&one, &one, most + 1, 1, CADRE_F32, &rows), CADRE_ETOOLARGE);
    cr_expect_str_eq(cadre_error_text(),
                     "the rows take 268435464 bytes, and a dataset from memory 268435456 at most: "
                     "write them to a file that the workers can read, or make several datasets");

    cadre_chunk_t *chunk = cadre_chunk_new(CADRE_CHUNK_SIZE_MAX);
    for (int i = 0; i < CADRE_MEMORY_ROWS_SIZE_MAX / CADRE_CHUNK_SIZE_MAX; i++) {
        cr_assert_eq(cadre_row_chunks_add(&rows, cadre_chunk_ref(chunk)), 0);
    }
    cr_expect_eq(cadre_row_chunks_rows(&rows), most);
    cr_expect_eq(cadre_row_chunks_add(&rows, cadre_chunk_new(1)), CADRE_ETOOLARGE);
    cr_expect_eq(cadre_row_chunks_rows(&rows), most, "what did not fit was not added");
    cadre_row_chunks_fini(&rows);
    cr_expect(cadre_chunk_alone(chunk));
    cadre_chunk_unref(&chunk);
}

Test(row_chunks, knows_bytes_that_are_no_rows)
{
    cadre_row_chunks_t rows = {.features = 2, .label = CADRE_F32};
    cr_assert_eq(cadre_row_chunks_add(&rows, cadre_chunk_new_copy("123456789012", 12)), 0);
    cr_expect_eq(cadre_row_chunks_rows(&rows), 1);
    cr_assert_eq(cadre_row_chunks_add(&rows, cadre_chunk_new_copy("1234", 4)), 0);
    cr_expect_eq(cadre_row_chunks_rows(&rows), -1);
    cadre_row_chunks_fini(&rows);
}
