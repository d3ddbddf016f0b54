#include "common/base/vocabulary.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(vocabulary, .timeout = 240);

/* Counts the words of a text; writes their numbers to `numbers`, and returns how many there are. */
static size_t
count_words(cadre_vocabulary_t *vocabulary, const char *text, uint32_t numbers[64])
{
    char word[CADRE_WORD_SIZE];
    const char *end = text + strlen(text);
    size_t count = 0;
    while (cadre_vocabulary_next_word(&text, end, word) > 0) {
        cr_assert_lt(count, 64);
        numbers[count++] = cadre_vocabulary_count(vocabulary, word);
    }
    return count;
}

Test(vocabulary, words_are_letters_digits_and_apostrophes)
{
    static const char text[] = "  Don't--STOP,\tna\xc3\xafve 2x\n.";
    static const char *const wanted[] = {"don't", "stop", "na\xc3\xafve", "2x"};
    const char *at = text;
    char word[CADRE_WORD_SIZE];
    for (size_t i = 0; i < CADRE_COUNT_OF(wanted); i++) {
        cr_expect_eq(cadre_vocabulary_next_word(&at, text + sizeof(text) - 1, word),
                     strlen(wanted[i]));
        cr_expect_str_eq(word, wanted[i]);
    }
    cr_expect_eq(cadre_vocabulary_next_word(&at, text + sizeof(text) - 1, word), 0);
    cr_expect_eq(cadre_vocabulary_next_word(&at, text + sizeof(text) - 1, word), 0);
}

Test(vocabulary, cuts_a_long_word)
{
    for (size_t length = CADRE_WORD_SIZE - 2; length <= CADRE_WORD_SIZE; length++) {
        char text[CADRE_WORD_SIZE + 2];
        memset(text, 'x', length);
        memcpy(text + length, " y", 2);
        const char *at = text;
        char word[CADRE_WORD_SIZE];
        const size_t kept = length < CADRE_WORD_SIZE - 1 ? length : CADRE_WORD_SIZE - 1;
        cr_expect_eq(cadre_vocabulary_next_word(&at, text + length + 2, word), kept);
        cr_expect_eq(strlen(word), kept);
        cr_expect_eq(cadre_vocabulary_next_word(&at, text + length + 2, word), 1);
        cr_expect_str_eq(word, "y");
    }
}

Test(vocabulary, gives_ids_by_frequency_then_by_text)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = cadre_vocabulary_new();
    uint32_t numbers[64];
    cr_assert_eq(count_words(vocabulary, "c b b a c once d d d", numbers), 9);
    cr_expect_eq(cadre_vocabulary_size(vocabulary), 0);
    cadre_vocabulary_rank(vocabulary, 2, 9);
    static const char *const wanted[] = {"d", "b", "c"};
    static const uint64_t counts[] = {3, 2, 2};
    cr_assert_eq(cadre_vocabulary_size(vocabulary), 3);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_str_eq(cadre_vocabulary_word(vocabulary, i), wanted[i]);
        cr_expect_eq(cadre_vocabulary_frequency(vocabulary, i), counts[i]);
    }
    cr_expect_eq(cadre_vocabulary_id(vocabulary, numbers[0]), 2);
    cr_expect_eq(cadre_vocabulary_id(vocabulary, numbers[1]), 1);
    cr_expect_eq(cadre_vocabulary_id(vocabulary, numbers[2]), 1);
    cr_expect_eq(cadre_vocabulary_id(vocabulary, numbers[3]), -1, "a is there once");
    cr_expect_eq(cadre_vocabulary_id(vocabulary, numbers[8]), 0);
}

Test(vocabulary, gives_no_more_ids_than_asked)
{
    for (size_t most = 2; most <= 4; most++) {
        cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary =
            cadre_vocabulary_new();
        uint32_t numbers[64];
        count_words(vocabulary, "a a b b c c", numbers);
        cadre_vocabulary_rank(vocabulary, 1, most);
        cr_expect_eq(cadre_vocabulary_size(vocabulary), most < 3 ? most : 3);
    }
}

Test(vocabulary, grows_in_memory_by_words_alone)
{
    enum { WORDS = 5000 };
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = cadre_vocabulary_new();
    uint64_t size_bytes = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < WORDS; i++) {
            char word[CADRE_WORD_SIZE];
            snprintf(word, sizeof(word), "w%d", i);
            cr_assert_eq(cadre_vocabulary_count(vocabulary, word), (uint32_t)i);
        }
        cr_expect(round == 0 || size_bytes == cadre_vocabulary_size_bytes(vocabulary));
        size_bytes = cadre_vocabulary_size_bytes(vocabulary);
        cr_expect_gt(size_bytes, 24 * WORDS);
    }
}
