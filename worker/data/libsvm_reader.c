/*
 * `label index:value index:value ... # comment`, indices from 1, ascending. A `qid:number` right
 * behind the label (ranking sets) is checked and skipped.
 *
 * With "keys" an index is a key of 64 bits, and the row is stored as it is read: so many keys of
 * CADRE_KEY_PARTS numbers, then as many values.
 */
#include <cadre/program.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/data_column.h"
#include "worker/data/number.h"
#include "worker/data/reader.h"

struct cadre_libsvm {
    cadre_reader_t *reader;
    uint64_t index_max;         /* the largest index that a line may have */
    uint64_t index;             /* the last one of the line being read */
    size_t count;               /* items of that line */
    cadre_sparse_item_t *items; /* [count]: its index and value pairs, but with keys */
    size_t capacity;
    float *row; /* with keys: the row that it is; else NULL */
};

static bool
is_blank(char character)
{
    return character == ' ' || character == '\t';
}

static const char *
skip_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at)) {
        at++;
    }
    return at;
}

static const char *
skip_word(const char *at, const char *end)
{
    while (at < end && !is_blank(*at)) {
        at++;
    }
    return at;
}

/* Fails with a text that quotes the word at `at` and says what it should be. */
static int
refuse_word(const char *at, const char *end, const char *wanted)
{
    char token[CADRE_BAD_LINES_TOKEN_SIZE];
    return cadre_fail(CADRE_EDATA, "'%s' is no %s",
                      cadre_bad_lines_token(at, skip_word(at, end), token), wanted);
}

/* Checks the index of an item against the one before it on the line and the largest one. */
static int
check_index(const cadre_libsvm_t *self, uint64_t index)
{
    if (index == 0) {
        return cadre_fail(CADRE_EDATA, "index 0, but indices start at 1");
    }

    if (index <= self->index) {
        return cadre_fail(CADRE_EDATA, "index %" PRIu64 " after %" PRIu64 ", but indices ascend",
                          index, self->index);
    }

    if (index > self->index_max) {
        return cadre_fail(CADRE_EDATA, "index %" PRIu64 " is above %" PRIu64 " features", index,
                          self->index_max);
    }

    return 0;
}

/* Adds an item to the line; what a row of keys has no room for is only counted. */
static void
add_item(cadre_libsvm_t *self, uint64_t index, float value)
{
    const size_t number = self->count;
    if (!self->row) {
        self->items = cadre_grow(self->items, number, &self->capacity, sizeof(*self->items));
        self->items[number] = (cadre_sparse_item_t){.column = (uint32_t)index - 1, .value = value};
    } else if (number < (uint64_t)self->reader->spec->items) {
        float *values = self->row + CADRE_KEY_PARTS * self->reader->spec->items;
        cadre_data_column_write_key(index, self->row + CADRE_KEY_PARTS * number);
        values[number] = value;
    }
    self->index = index;
    self->count++;
}

/* Reads `index:value` at `*at` and moves `*at` behind it. */
static int
parse_item(cadre_libsvm_t *self, const char **at, const char *end)
{
    uint64_t index = 0;
    double number = 0;
    const uint64_t most = self->row ? UINT64_MAX : INT32_MAX;
    const char *colon = cadre_number_scan_index(*at, end, most, &index);
    const char *after =
        colon && colon < end && *colon == ':' ? cadre_number_scan(colon + 1, end, &number) : NULL;
    if (!after || (after < end && !is_blank(*after))) {
        return refuse_word(*at, end,
                           self->row ? "key:value with a key below 2^64 and a finite number"
                                     : "index:value with an index below 2^31 and a finite number");
    }
    int status = check_index(self, index);
    if (status < 0) {
        return status;
    }

    float value = 0;
    if (!cadre_reader_scale(self->reader, number, &value)) {
        return cadre_fail(CADRE_EDATA, "index %" PRIu64 ": %g does not fit f32", index, number);
    }
    add_item(self, index, value);
    *at = after;
    return 0;
}

/* Skips `qid:number` if it is there. */
static int
skip_query_id(const char **at, const char *end)
{
    if (end - *at < 4 || memcmp(*at, "qid:", 4) != 0) {
        return 0;
    }

    uint64_t query = 0;
    const char *after = cadre_number_scan_index(*at + 4, end, INT64_MAX, &query);
    if (!after || (after < end && !is_blank(*after))) {
        return refuse_word(*at, end, "qid:number");
    }

    *at = skip_blanks(after, end);
    return 0;
}

/* Fills the items or the row, and `label`, from a line that has a label. */
static int
parse_line(cadre_libsvm_t *self, const char *at, const char *end, double *label)
{
    const char *after = cadre_number_scan(at, end, label);
    if (!after || (after < end && !is_blank(*after))) {
        return refuse_word(at, end, "label (a finite number)");
    }

    at = skip_blanks(after, end);
    int status = skip_query_id(&at, end);
    if (status < 0) {
        return status;
    }

    const int64_t items = self->reader->spec->items;
    self->count = 0;
    self->index = 0;
    if (self->row) {
        memset(self->row, 0, (size_t)self->reader->features * sizeof(*self->row));
    }
    while (at < end) {
        status = parse_item(self, &at, end);
        if (status < 0) {
            return status;
        }
        at = skip_blanks(at, end);
    }

    if (items > 0 && self->count > (uint64_t)items) {
        return cadre_fail(CADRE_EDATA, "%zu items, but \"items\" is %" PRId64, self->count, items);
    }
    return 0;
}

/* Adds the row of a line to the store. A bad line is counted and skipped, as long as so many are
 * allowed. */
static int
add_line(cadre_libsvm_t *self, const char *at, const char *end)
{
    cadre_reader_t *reader = self->reader;
    double number = 0;
    cadre_label_t label;
    if (parse_line(self, at, end, &number) < 0 ||
        cadre_label_rule_read(&reader->label, number, &label) < 0) {
        return cadre_bad_lines_add(reader->bad, cadre_reader_path(reader),
                                   cadre_data_file_line_number(reader->file));
    }

    /* Without a number of features in the description, the largest index of the files is that. */
    if (reader->spec->items == 0 && self->index > (uint64_t)reader->features) {
        reader->features = (int64_t)self->index;
    }

    int status = self->row
                     ? cadre_row_store_add(reader->store, self->row, label)
                     : cadre_row_store_add_sparse(reader->store, self->items, self->count, label);
    return status < 0 ? cadre_fail_within(status, "%s", cadre_reader_path(reader)) : 0;
}

/* Remembers, with the first file, how many features a line may have. */
int
cadre_libsvm_begin(cadre_reader_t *self)
{
    if (self->libsvm) {
        return 0;
    }

    const int64_t given = self->spec->features;
    self->libsvm = cadre_calloc(1, sizeof(*self->libsvm));
    self->libsvm->reader = self;
    self->libsvm->index_max = given ? (uint64_t)given : CADRE_DATA_FEATURES_MAX;
    self->features = given ? given : 1; /* at least one, should all rows be empty */
    if (self->spec->has_keys) {
        self->libsvm->index_max = UINT64_MAX;
        self->features = (CADRE_KEY_PARTS + 1) * self->spec->items;
        self->libsvm->row = cadre_calloc((size_t)self->features, sizeof(float));
        cadre_reader_make_store(self, CADRE_ROWS_F32, self->features);
        return 0;
    }
    if (self->spec->items > 0) {
        self->features = 2 * self->spec->items; /* indices and values */
    }
    cadre_reader_make_store(self, CADRE_ROWS_SPARSE, 0);
    return 0;
}

/* Reads the next line, of which a comment and blanks are skipped, as a row. */
int
cadre_libsvm_next(cadre_reader_t *self)
{
    const char *line = NULL;
    size_t length = 0;
    int more = cadre_data_file_line(self->file, &line, &length);
    if (more <= 0) {
        return more;
    }

    const char *comment = memchr(line, '#', length);
    const char *end = comment ? comment : line + length;
    const char *at = skip_blanks(line, end);
    int status = at < end ? add_line(self->libsvm, at, end) : 0;
    return status < 0 ? status : 1;
}

void
cadre_libsvm_end(cadre_reader_t *self)
{
    if (self->libsvm) {
        free(self->libsvm->items);
        free(self->libsvm->row);
        cadre_free(&self->libsvm);
    }
}
