#include "worker/data/column_ids.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/status.h"
#include "worker/data/bad_lines.h"
#include "worker/data/number.h"

/* A piece of the field. */
typedef struct {
    const char *at;
    const char *end;
} piece_t;

int64_t
cadre_column_ids_of_word(const char *word, size_t length, uint64_t seed, int64_t buckets)
{
    if (length == 0) {
        return 0;
    }
    return (int64_t)(1 + XXH3_64bits_withSeed(word, length, seed) % (uint64_t)(buckets - 1));
}

uint64_t
cadre_column_ids_key_of_word(const char *word, size_t length, uint64_t seed)
{
    return length > 0 ? XXH3_64bits_withSeed(word, length, seed) : 0;
}

/* Returns the piece without blanks around it. */
static piece_t
trim(piece_t piece)
{
    while (piece.at < piece.end && (*piece.at == ' ' || *piece.at == '\t')) {
        piece.at++;
    }
    while (piece.at < piece.end && (piece.end[-1] == ' ' || piece.end[-1] == '\t')) {
        piece.end--;
    }
    return piece;
}

/* Fails with a text that quotes the piece and says what it should be. */
static int
refuse(piece_t piece, const char *wanted)
{
    char token[CADRE_BAD_LINES_TOKEN_SIZE];
    return cadre_fail(CADRE_EDATA, "'%s' is no %s",
                      cadre_bad_lines_token(piece.at, piece.end, token), wanted);
}

/* Gives the key that the piece is as a number, a negative one by its bits; or the hash of the
 * word. */
static int
read_key(const cadre_data_column_t *column, piece_t piece, float *id)
{
    uint64_t key = 0;
    if (column->key == CADRE_DATA_KEY_WORD) {
        key = cadre_column_ids_key_of_word(piece.at, (size_t)(piece.end - piece.at),
                                           (uint64_t)column->hash_seed);
    } else {
        const bool is_negative = piece.at < piece.end && *piece.at == '-';
        const uint64_t most = is_negative ? UINT64_C(1) << 63 : UINT64_MAX;
        if (cadre_number_scan_index(piece.at + is_negative, piece.end, most, &key) != piece.end) {
            return refuse(piece, "key, a whole number from -2^63 to 2^64 - 1");
        }
        key = is_negative ? 0 - key : key;
    }
    cadre_data_column_write_key(key, id);
    return 0;
}

/* Gives the id of a word, or the id that the piece is. */
static int
read_id(const cadre_data_column_t *column, piece_t piece, float *id)
{
    if (column->key != CADRE_DATA_KEY_NONE) {
        return read_key(column, piece, id);
    }
    const size_t length = (size_t)(piece.end - piece.at);
    if (column->buckets > 0) {
        *id = (float)cadre_column_ids_of_word(piece.at, length, (uint64_t)column->hash_seed,
                                              column->buckets);
        return 0;
    }
    uint64_t number = 0;
    if (cadre_number_scan_index(piece.at, piece.end, CADRE_DATA_BUCKETS_MAX - 1, &number) !=
        piece.end) {
        return refuse(piece, "id from 0 to 16777215: words need \"hash\"");
    }
    *id = (float)number;
    return 0;
}

/* Cuts the weight off the piece: what is behind its last colon; 1 where there is none. */
static int
cut_weight(piece_t *piece, float *weight)
{
    *weight = 1;
    const char *colon = memrchr(piece->at, ':', (size_t)(piece->end - piece->at));
    if (!colon) {
        return 0;
    }
    const piece_t text = trim((piece_t){colon + 1, piece->end});
    double number = 0;
    if (cadre_number_scan(text.at, text.end, &number) != text.end || !isfinite((float)number)) {
        return refuse(text, "weight (a finite number)");
    }
    *weight = (float)number;
    *piece = trim((piece_t){piece->at, colon});
    return 0;
}

/* Reads the id and the weight of one item of a bag. */
static int
read_item(const cadre_data_column_t *column, piece_t piece, float *id, float *weight)
{
    *weight = 1;
    int status = column->is_weighted ? cut_weight(&piece, weight) : 0;
    if (status < 0) {
        return status;
    }
    return piece.at < piece.end ? read_id(column, piece, id)
                                : cadre_fail(CADRE_EDATA, "it is empty");
}

/* Counts the items of a bag that is not empty. */
static int64_t
count_items(const cadre_data_column_t *column, piece_t bag)
{
    int64_t count = 1;
    for (const char *at = bag.at; at < bag.end; at++) {
        count += *at == column->separator;
    }
    return count;
}

/* Reads a bag: its ids, and behind the place for the last of these its weights. */
static int
read_bag(const cadre_data_column_t *column, piece_t bag, float *x)
{
    const int64_t width = cadre_data_column_id_width(column);
    float *weights = x + width * column->items;
    memset(x, 0, (size_t)cadre_data_column_width(column) * sizeof(*x));
    if (bag.at == bag.end) {
        return 0;
    }
    const int64_t count = count_items(column, bag);
    if (count > column->items) {
        return cadre_fail(CADRE_EDATA, "%" PRId64 " items, but \"items\" is %" PRId64, count,
                          column->items);
    }
    const char *at = bag.at;
    for (int64_t i = 0; i < count; i++) {
        const char *stop = memchr(at, column->separator, (size_t)(bag.end - at));
        stop = stop ? stop : bag.end;
        int status = read_item(column, trim((piece_t){at, stop}), &x[width * i], &weights[i]);
        if (status < 0) {
            return cadre_fail_within(status, "item %" PRId64, i);
        }
        at = stop + (stop < bag.end);
    }
    return 0;
}

int
cadre_column_ids_read(const cadre_data_column_t *column, const char *start, const char *end,
                      float *x)
{
    const piece_t field = {start, end};
    return column->items > 0 ? read_bag(column, field, x) : read_id(column, field, x);
}
