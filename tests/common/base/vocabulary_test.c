#include "common/base/vocabulary.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(vocabulary, .timeout = 240);

/* Counts the words of a text, between blanks. */
static void
count_words(cadre_vocabulary_t *vocabulary, const char *text)
{
    char word[CADRE_WORD_SIZE];
    for (int size = 0; sscanf(text, "%99s%n", word, &size) == 1; text += size) {
        cadre_vocabulary_count(vocabulary, word);
    }
}

Test(vocabulary, has_letters_digits_and_apostrophes_in_words)
{
    for (int i = 0; i < 256; i++) {
        const char character = (char)i;
        const bool is_capital = i >= 'A' && i <= 'Z';
        const bool belongs =
            is_capital || (i >= 'a' && i <= 'z') || (i >= '0' && i <= '9') || i == '\'' || i > 127;
        const char wanted = is_capital ? (char)(i + 32) : character;
        cr_expect_eq(cadre_vocabulary_letter(character), belongs ? wanted : '\0', "%d", i);
    }
}

Test(vocabulary, gives_ids_by_frequency_then_by_text)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = cadre_vocabulary_new();
    count_words(vocabulary, "c b b a c once d d d");
    cr_expect_eq(cadre_vocabulary_size(vocabulary), 0);
    cr_expect_eq(cadre_vocabulary_total(vocabulary), 9);
    cadre_vocabulary_rank(vocabulary, 2, 9);
    static const char *const wanted[] = {"d", "b", "c"};
    static const uint64_t counts[] = {3, 2, 2};
    cr_assert_eq(cadre_vocabulary_size(vocabulary), 3);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_str_eq(cadre_vocabulary_word(vocabulary, i), wanted[i]);
        cr_expect_eq(cadre_vocabulary_frequency(vocabulary, i), counts[i]);
        cr_expect_eq(cadre_vocabulary_find(vocabulary, wanted[i]), (int64_t)i);
    }
    cr_expect_eq(cadre_vocabulary_find(vocabulary, "a"), -1, "it is there once");
    cr_expect_eq(cadre_vocabulary_find(vocabulary, "other"), -1);
    cr_expect_eq(cadre_vocabulary_total(vocabulary), 9, "with those that have no id");
}

Test(vocabulary, gives_no_more_ids_than_asked)
{
    for (size_t most = 2; most <= 4; most++) {
        cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary =
            cadre_vocabulary_new();
        count_words(vocabulary, "a a b b c c");
        cadre_vocabulary_rank(vocabulary, 1, most);
        cr_expect_eq(cadre_vocabulary_size(vocabulary), most < 3 ? most : 3);
        cr_expect_eq(cadre_vocabulary_find(vocabulary, "c"), most < 3 ? -1 : 2);
    }
}

enum { WORDS = 50000 };

static void
count_numbers(cadre_vocabulary_t *vocabulary)
{
    for (int i = 0; i < WORDS; i++) {
        char word[CADRE_WORD_SIZE];
        snprintf(word, sizeof(word), "w%d", i);
        cadre_vocabulary_count(vocabulary, word);
    }
}

Test(vocabulary, grows_in_memory_by_words_alone)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = cadre_vocabulary_new();
    count_numbers(vocabulary);
    const uint64_t size_bytes = cadre_vocabulary_size_bytes(vocabulary);
    cr_expect_gt(size_bytes, 24 * WORDS);
    cr_expect_lt(size_bytes, 100 * WORDS);
    count_numbers(vocabulary);
    cr_expect_eq(cadre_vocabulary_size_bytes(vocabulary), size_bytes);
}

Test(vocabulary, keeps_no_more_than_the_words_with_an_id)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = cadre_vocabulary_new();
    count_numbers(vocabulary);
    const uint64_t size_bytes = cadre_vocabulary_size_bytes(vocabulary);
    cadre_vocabulary_rank(vocabulary, 1, WORDS / 50);
    cr_expect_lt(cadre_vocabulary_size_bytes(vocabulary), size_bytes / 20);
    cr_expect_eq(cadre_vocabulary_find(vocabulary, "w9"), -1, "w10 and so on are smaller");
    cr_expect_eq(cadre_vocabulary_find(vocabulary, "w0"), 0);
}
