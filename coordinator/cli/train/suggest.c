#include "coordinator/cli/train/suggest.h"

#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"

/* Returns how many insertions, deletions, replacements and swaps of neighbours turn `left` into
 * `right` (optimal string alignment distance), at most CADRE_SUGGEST_SIZE_MAX. */
static size_t
distance_of(const char *left, const char *right)
{
    size_t rows = strlen(left);
    size_t columns = strlen(right);
    if (rows > CADRE_SUGGEST_SIZE_MAX || columns > CADRE_SUGGEST_SIZE_MAX) {
        return CADRE_SUGGEST_SIZE_MAX;
    }

    size_t table[CADRE_SUGGEST_SIZE_MAX + 1][CADRE_SUGGEST_SIZE_MAX + 1];
    for (size_t j = 0; j <= columns; j++) {
        table[0][j] = j;
    }

    for (size_t i = 1; i <= rows; i++) {
        table[i][0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t replaced = table[i - 1][j - 1] + (left[i - 1] != right[j - 1]);
            table[i][j] =
                cadre_min_u64(replaced, cadre_min_u64(table[i - 1][j] + 1, table[i][j - 1] + 1));
            if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
                table[i][j] = cadre_min_u64(table[i][j], table[i - 2][j - 2] + 1);
            }
        }
    }

    return table[rows][columns];
}

/* Returns the nearest of the words, the first of equals; NULL when none differs in at most a third
 * of its characters (of a short word, in one). */
const char *
cadre_suggest(const char *word, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t nearest_distance = CADRE_SUGGEST_SIZE_MAX;

    for (size_t i = 0; i < count; i++) {
        if (!words[i]) {
            continue;
        }
        size_t allowed = strlen(words[i]) / 3;
        allowed = allowed ? allowed : 1;
        size_t distance = distance_of(word, words[i]);
        if (distance <= allowed && distance < nearest_distance) {
            nearest = words[i];
            nearest_distance = distance;
        }
    }

    return nearest;
}

char *
cadre_suggest_text(const char *word, const char *const *words, size_t count)
{
    const char *nearest = cadre_suggest(word, words, count);
    return nearest ? cadre_asprintf("; did you mean \"%s\"?", nearest) : cadre_strdup("");
}
