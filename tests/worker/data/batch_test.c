#include "worker/data/batch.h"

#include "tests/worker/data/files.h"

TestSuite(batch, .timeout = 240, .init = files_setup, .fini = files_teardown);

enum { ROWS = 1000 };

/* Row i is [i, -i] with label i % 10. */
static cadre_source_t *
open_thousand(void)
{
    cadre_auto(cadre_free) char *text = cadre_calloc(ROWS, 32);
    size_t size = 0;
    for (int i = 0; i < ROWS; i++) {
        size += (size_t)snprintf(text + size, 32, "%d,%d,%d\n", i, -i, i % 10);
    }
    files_write("a", text, size);
    return files_open_well("{'format':'csv','path':'a'}", ROWS, 2);
}

/* Checks one batch and marks its rows as seen. */
static void
check_batch(const cadre_tensor_t *x, const cadre_tensor_t *y, int64_t count, int *seen)
{
    cr_assert(x->dtype == CADRE_F32 && x->rank == 2 && x->shape[0] == count && x->shape[1] == 2);
    cr_assert(y->dtype == CADRE_I32 && y->rank == 1 && y->shape[0] == count);
    for (int64_t i = 0; i < count; i++) {
        const float *row = (const float *)x->data + 2 * i;
        cr_assert(row[0] >= 0 && row[0] < ROWS);
        cr_assert_eq(row[1], -row[0]);
        cr_assert_eq(((const int32_t *)y->data)[i], (int)row[0] % 10, "x and y do not go together");
        seen[(int)row[0]]++;
    }
}

Test(batch, keeps_the_order_of_the_file_when_it_does_not_shuffle)
{
    cadre_source_t *dataset = open_thousand();
    cadre_batch_order_t order = {.seed = 1, .epoch = 1};
    cadre_tensor_t x = {0};
    cadre_tensor_t y = {0};
    cr_assert_eq(cadre_batch_read(dataset, &order, 300, 600, &x, &y), 0);
    for (int i = 0; i < 600; i++) {
        cr_assert_eq(((float *)x.data)[2 * i], (float)(300 + i));
        cr_assert_eq(((int32_t *)y.data)[i], i % 10);
    }
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&y);
    cadre_source_close(&dataset);
}

Test(batch, visits_each_row_of_an_epoch_once_in_an_order_of_its_own)
{
    cadre_source_t *dataset = open_thousand();
    float first[2][2] = {{0}};
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        cadre_batch_order_t order = {.shuffle = true, .seed = 7, .epoch = epoch};
        int seen[ROWS] = {0};
        cadre_tensor_t x = {0};
        cadre_tensor_t y = {0};
        for (int64_t at = 0; at < ROWS; at += 300) {
            int64_t count = ROWS - at < 300 ? ROWS - at : 300;
            cr_assert_eq(cadre_batch_read(dataset, &order, at, count, &x, &y), 0);
            check_batch(&x, &y, count, seen);
            first[epoch][at > 0] = ((float *)x.data)[0];
        }
        for (int i = 0; i < ROWS; i++) {
            cr_assert_eq(seen[i], 1, "row %d was read %d times", i, seen[i]);
        }
        cadre_tensor_fini(&x);
        cadre_tensor_fini(&y);
    }
    cr_assert(first[0][0] != first[1][0] || first[0][1] != first[1][1]);
    cadre_source_close(&dataset);
}

Test(batch, gives_the_same_rows_whatever_the_cut)
{
    cadre_source_t *dataset = open_thousand();
    cadre_batch_order_t order = {.shuffle = true, .seed = 7, .epoch = 3};
    cadre_tensor_t x = {0};
    cadre_tensor_t y = {0};
    cadre_tensor_t one = {0};
    cadre_tensor_t label = {0};
    cr_assert_eq(cadre_batch_read(dataset, &order, 0, ROWS, &x, &y), 0);
    for (int64_t i = 0; i < ROWS; i += 13) {
        cr_assert_eq(cadre_batch_read(dataset, &order, i, 1, &one, &label), 0);
        cr_assert_eq(*(float *)one.data, ((float *)x.data)[2 * i]);
    }
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&one);
    cadre_tensor_fini(&label);
    cadre_source_close(&dataset);
}

Test(batch, uses_memory_again_when_the_shape_stays)
{
    cadre_source_t *dataset = open_thousand();
    cadre_batch_order_t order = {.shuffle = true};
    cadre_tensor_t x = {0};
    cadre_tensor_t y = {0};
    cr_assert_eq(cadre_batch_read(dataset, &order, 0, 100, &x, &y), 0);
    void *before = x.data;
    cr_assert_eq(cadre_batch_read(dataset, &order, 100, 100, &x, &y), 0);
    cr_assert_eq(x.data, before);
    cr_assert_eq(cadre_batch_read(dataset, &order, 200, 101, &x, &y), 0);
    cr_assert_eq(x.shape[0], 101);
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&y);
    cadre_source_close(&dataset);
}

Test(batch, refuses_a_range_that_leaves_the_dataset)
{
    cadre_source_t *dataset = open_thousand();
    cadre_batch_order_t order = {0};
    cadre_tensor_t x = {0};
    cadre_tensor_t y = {0};
    static const int64_t ranges[][2] = {{0, 0},         {0, -1},       {-1, 2},
                                        {ROWS, 1},      {0, ROWS + 1}, {ROWS - 1, 2},
                                        {5, INT64_MAX}, {INT64_MAX, 1}};
    for (size_t i = 0; i < CADRE_COUNT_OF(ranges); i++) {
        cr_expect_eq(cadre_batch_read(dataset, &order, ranges[i][0], ranges[i][1], &x, &y),
                     CADRE_EINVALID);
        cr_expect_null(x.data);
    }
    cr_expect_eq(cadre_batch_read(dataset, &order, ROWS - 1, 1, &x, &y), 0);
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&y);
    cadre_source_close(&dataset);
}

Test(batch, refuses_more_than_its_limit)
{
    char text[17 * 2 * 4 + 20] = "1 16777216:1\n";
    for (int i = 0; i < 16; i++) {
        size_t size = strlen(text);
        snprintf(text + size, sizeof(text) - size, "1\n");
    }
    files_write_text("a", text);
    cadre_source_t *dataset =
        files_open_well("{'format':'libsvm','path':'a'}", 17, CADRE_DATA_FEATURES_MAX);
    cadre_batch_order_t order = {0};
    cadre_tensor_t x = {0};
    cadre_tensor_t y = {0};
    cr_expect_eq(cadre_batch_read(dataset, &order, 0, 17, &x, &y), CADRE_ETOOLARGE);
    cr_expect_null(x.data);
    cr_expect_eq(cadre_batch_read(dataset, &order, 0, 1, &x, &y), 0);
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&y);
    cadre_source_close(&dataset);
}
