#include "worker/data/source.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 103 };

TestSuite(split, .timeout = 240);

/* Opens a file of ROWS rows whose only feature is the row's number, with more keys for its
 * description. */
static int
open_with(const char *keys, cadre_source_t **source)
{
    char path[] = "/tmp/cadre-split-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    FILE *file = fdopen(fd, "w");
    for (int i = 0; i < ROWS; i++) {
        fprintf(file, "%d,%d\n", i, i % 2);
    }
    fclose(file);
    char text[512];
    snprintf(text, sizeof(text), "{\"format\": \"csv\", \"path\": \"%s\"%s}", path, keys);
    cadre_data_spec_t spec;
    int status = cadre_data_spec_decode(text, strlen(text), &spec);
    if (status == 0) {
        status = cadre_source_open(&spec, NULL, source);
        cadre_data_spec_fini(&spec);
    }
    unlink(path);
    return status;
}

/* Marks the rows of one part; returns how many they are. */
static int64_t
mark(const char *keys, int seen[ROWS])
{
    cadre_source_t *source = NULL;
    cr_assert_eq(open_with(keys, &source), 0);
    int64_t rows = cadre_source_info(source)->rows;
    for (int64_t i = 0; i < rows; i++) {
        float x = -1;
        int32_t y = -1;
        cr_assert_eq(cadre_source_read(source, &i, 1, &x, &y), 0);
        cr_assert_eq(y, (int)x % 2);
        seen[(int)x]++;
    }
    int64_t beyond = rows;
    float x;
    int32_t y;
    cr_assert_eq(cadre_source_read(source, &beyond, 1, &x, &y), CADRE_EINVALID);
    cadre_source_close(&source);
    return rows;
}

Test(split, gives_every_row_to_exactly_one_part)
{
    int seen[ROWS] = {0};
    int64_t held = mark(", \"held_out\": 0.2, \"part\": \"held_out\"", seen);
    cr_assert_eq(held, 20);
    cr_assert_eq(mark(", \"held_out\": 0.2, \"part\": \"rest\"", seen), ROWS - held);
    for (int i = 0; i < ROWS; i++) {
        cr_assert_eq(seen[i], 1, "row %d", i);
    }
}

Test(split, draws_the_same_rows_each_time_and_others_with_another_seed)
{
    int first[ROWS] = {0};
    int again[ROWS] = {0};
    int other[ROWS] = {0};
    mark(", \"held_out\": 0.3, \"part\": \"held_out\"", first);
    mark(", \"held_out\": 0.3, \"part\": \"held_out\", \"split_seed\": 1", again);
    mark(", \"held_out\": 0.3, \"part\": \"held_out\", \"split_seed\": 2", other);
    cr_assert_arr_eq(first, again, sizeof(first));
    cr_assert_arr_neq(first, other, sizeof(first));
    int prefix = 0;
    while (prefix < ROWS && first[prefix]) {
        prefix++;
    }
    cr_assert_lt(prefix, 10, "the first rows of the file are no random draw");
}

Test(split, refuses_descriptions_that_make_no_sense)
{
    cadre_source_t *source = NULL;
    cr_assert_eq(open_with(", \"held_out\": 0.2", &source), CADRE_ECONFIG);
    cr_assert_eq(open_with(", \"part\": \"rest\"", &source), CADRE_ECONFIG);
    cr_assert_eq(open_with(", \"split_seed\": 3", &source), CADRE_ECONFIG);
    cr_assert_eq(open_with(", \"held_out\": 1, \"part\": \"rest\"", &source), CADRE_ECONFIG);
    cr_assert_eq(open_with(", \"held_out\": 0.2, \"part\": \"all\"", &source), CADRE_ECONFIG);
    cr_assert_eq(open_with(", \"held_out\": 0.001, \"part\": \"rest\"", &source), CADRE_EDATA);
}
