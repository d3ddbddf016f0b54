#include "coordinator/cli/embedding.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(embedding, .timeout = 240);

enum { ROWS = 5, WIDTH = 2 };

/* Row 1 points where row 0 does, 2 away from it, 3 half way between the axes, 4 nowhere. */
static float vectors[ROWS * WIDTH] = {1, 0, 3, 0, -2, 0, 1, 1, 0, 0};

static cadre_embedding_t
make_embedding(void)
{
    cadre_embedding_t made = {.rows = ROWS, .width = WIDTH};
    cr_assert_eq(cadre_tensor_init(&made.values, CADRE_F32, (int64_t[]){ROWS, WIDTH}, 2), 0);
    memcpy(made.values.data, vectors, sizeof(vectors));
    return made;
}

/* Reads words from a file that holds `text`. */
static int
read_words(cadre_embedding_t *embedding, const char *text)
{
    char path[] = "/tmp/words-XXXXXX";
    int descriptor = mkstemp(path);
    cr_assert_geq(descriptor, 0);
    cr_assert_eq(write(descriptor, text, strlen(text)), (ssize_t)strlen(text));
    close(descriptor);
    int status = cadre_embedding_read_words(embedding, path);
    unlink(path);
    return status;
}

Test(embedding, nearest_rows_come_by_cosine)
{
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_embedding();
    cadre_neighbour_t found[ROWS];
    cr_assert_eq(cadre_embedding_nearest(&embedding, 0, NULL, ROWS, found), ROWS - 1);
    static const int64_t wanted[] = {1, 3, 4, 2};
    static const double cosines[] = {1, 0.70710678118654752, 0, -1};
    for (int i = 0; i < ROWS - 1; i++) {
        cr_expect_eq(found[i].row, wanted[i]);
        cr_expect_float_eq(found[i].cosine, cosines[i], 1e-12);
    }
    for (size_t most = 1; most < ROWS; most++) {
        cr_assert_eq(cadre_embedding_nearest(&embedding, 0, NULL, most, found), most);
        cr_expect_eq(found[most - 1].row, wanted[most - 1]);
    }
    cr_assert_eq(cadre_embedding_nearest(&embedding, 4, NULL, 2, found), 2);
    cr_expect(found[0].row == 0 && found[1].row == 1, "of equal ones the lower number");
}

Test(embedding, nearest_rows_may_be_those_of_some_keys)
{
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_embedding();
    cadre_neighbour_t found[ROWS];
    static const cadre_embedding_keys_t last = {.first = 2, .count = UINT64_MAX};
    cr_assert_eq(cadre_embedding_nearest(&embedding, 0, &last, ROWS, found), 3);
    cr_expect(found[0].row == 3 && found[1].row == 4 && found[2].row == 2);
    static const cadre_embedding_keys_t two = {.first = 2, .count = 2};
    cr_assert_eq(cadre_embedding_nearest(&embedding, 2, &two, ROWS, found), 1);
    cr_expect_eq(found[0].row, 3, "not itself");
    static const cadre_embedding_keys_t none = {.first = ROWS, .count = 9};
    cr_expect_eq(cadre_embedding_nearest(&embedding, 0, &none, ROWS, found), 0);
}

Test(embedding, rows_are_found_by_number_or_by_word)
{
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_embedding();
    int64_t row = -1;
    cr_expect_eq(cadre_embedding_find(&embedding, "4", &row), 0);
    cr_expect_eq(row, 4);
    cr_expect_eq(cadre_embedding_find(&embedding, "5", &row), CADRE_ENOTFOUND);
    cr_assert_eq(read_words(&embedding, "one\r\n2\nthree"), 0, "%s", cadre_error_text());
    cr_expect_eq(embedding.rows, 3, "rows without a word are left out");
    cr_expect_eq(cadre_embedding_find(&embedding, "three", &row), 0);
    cr_expect_eq(row, 2);
    cr_expect_eq(cadre_embedding_find(&embedding, "2", &row), 0);
    cr_expect_eq(row, 1);
    cr_expect_eq(cadre_embedding_find(&embedding, "0", &row), CADRE_ENOTFOUND);
    cadre_neighbour_t found[ROWS];
    cr_expect_eq(cadre_embedding_nearest(&embedding, 0, NULL, ROWS, found), 2);
}

/* Rows of a table, in the order of their keys, whose vectors are stored in another. */
static cadre_embedding_t
make_table(void)
{
    static const uint64_t keys[ROWS] = {0, 2, 3, 16777216, UINT64_MAX};
    cadre_embedding_t made = make_embedding();
    made.keys = cadre_calloc(ROWS, sizeof(*made.keys));
    for (int64_t i = 0; i < ROWS; i++) {
        made.keys[i] = (cadre_embedding_key_t){keys[i], ROWS - 1 - i};
    }
    return made;
}

Test(embedding, rows_of_a_table_are_found_by_key)
{
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_table();
    static const char *const absent[] = {"1", "4", "18446744073709551616", "-2", "2x", "- 1", ""};
    int64_t row = -1;
    cr_expect_eq(cadre_embedding_find(&embedding, "16777216", &row), 0);
    cr_expect_eq(row, 3);
    cr_expect_eq(cadre_embedding_find(&embedding, "18446744073709551615", &row), 0);
    cr_expect_eq(row, 4);
    row = -1;
    cr_expect_eq(cadre_embedding_find(&embedding, "-1", &row), 0, "as data has it");
    cr_expect_eq(row, 4);
    for (size_t i = 0; i < CADRE_COUNT_OF(absent); i++) {
        cr_expect_eq(cadre_embedding_find(&embedding, absent[i], &row), CADRE_ENOTFOUND);
    }
    cadre_neighbour_t found[ROWS];
    cr_assert_eq(cadre_embedding_nearest(&embedding, 4, NULL, 1, found), 1);
    cr_expect_eq(cadre_embedding_key(&embedding, found[0].row), 16777216, "the vector of place 1");

    static const cadre_embedding_keys_t field = {.first = 16777216, .count = 16777216};
    cr_assert_eq(cadre_embedding_nearest(&embedding, 0, &field, ROWS, found), 1);
    cr_expect_eq(found[0].row, 3);
    cr_expect_eq(cadre_embedding_find_key(&embedding, 3, "x", &row), 0);
    cr_expect_eq(row, 2);
    cr_expect_eq(cadre_embedding_find_key(&embedding, 1, "x", &row), CADRE_ENOTFOUND);
    cr_expect_str_eq(cadre_error_text(), "\"x\" has no row among the 5 of the table: nothing was "
                                         "trained on key 1");
}

/* Returns the embedding as it is printed; freed by the caller. */
static char *
printed(const cadre_embedding_t *embedding)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    cr_assert(file);
    cadre_embedding_print(embedding, file);
    cr_assert_eq(fclose(file), 0);
    return text;
}

Test(embedding, words_of_a_table_are_those_of_keys)
{
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_table();
    cr_assert_eq(read_words(&embedding, "zero\none\ntwo\n"), 0, "%s", cadre_error_text());
    cr_expect_eq(embedding.rows, 2, "rows whose keys have no word are left out");
    int64_t row = -1;
    cr_expect_eq(cadre_embedding_find(&embedding, "two", &row), 0);
    cr_expect_eq(row, 1);
    cr_expect_str_eq(cadre_embedding_word(&embedding, 1), "two");
    cr_expect_eq(cadre_embedding_find(&embedding, "one", &row), CADRE_ENOTFOUND);
    cr_expect(strstr(cadre_error_text(), "key 1"), "%s", cadre_error_text());
    cadre_auto(cadre_free) char *text = printed(&embedding);
    cr_expect_str_eq(text, "2 2\nzero 0 0\ntwo 1 1\n");
}

Test(embedding, words_without_any_row_are_refused)
{
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_table();
    embedding.keys++;
    embedding.rows = ROWS - 1;
    cr_expect_eq(read_words(&embedding, "zero\none\n"), CADRE_EDATA);
    embedding.keys--;
}

Test(embedding, words_are_refused_that_no_reader_could_part)
{
    char longest[CADRE_EMBEDDING_WORD_SIZE_MAX + 3];
    memset(longest, 'x', sizeof(longest));
    longest[CADRE_EMBEDDING_WORD_SIZE_MAX + 1] = '\n';
    longest[CADRE_EMBEDDING_WORD_SIZE_MAX + 2] = '\0';
    const char *const texts[] = {"", "a\n\nb\n", "a b\n", "a\tb\n", "1\n2\n3\n4\n5\n6\n", longest};
    for (size_t i = 0; i < CADRE_COUNT_OF(texts); i++) {
        cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_embedding();
        cr_expect_eq(read_words(&embedding, texts[i]), CADRE_EDATA, "%zu", i);
    }
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_embedding();
    cr_expect_eq(read_words(&embedding, longest + 1), 0, "%s", cadre_error_text());
    cadre_auto(cadre_embedding_fini) cadre_embedding_t other = make_embedding();
    cr_expect_eq(cadre_embedding_read_words(&other, "/tmp/no-such-file"), CADRE_ENOTFOUND);
}

Test(embedding, is_printed_as_word2vec_does)
{
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = make_embedding();
    ((float *)embedding.values.data)[0] = 0.1F;
    cr_assert_eq(read_words(&embedding, "a\nb\n"), 0);
    cadre_auto(cadre_free) char *text = printed(&embedding);
    cr_expect_str_eq(text, "2 2\na 0.100000001 0\nb 3 0\n");
}
