/*
 * `label index:value index:value ... # comment`, indices from 1, ascending. A `qid:number` right
 * behind the label (ranking sets) is checked and skipped.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/number.h"
#include "worker/data/reader.h"

typedef struct {
    cadre_reader_t *reader;
    cadre_data_file_t *file;
    int64_t features;           /* the largest index that a line may have */
    cadre_sparse_item_t *items; /* [count]: index and value pairs of the line being read */
    size_t count;
    size_t capacity;
} libsvm_t;

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

/* Reads `index:value` at `*at` and moves `*at` behind it. The index must be above `before`, the one
 * before it on the line. */
static int
parse_item(libsvm_t *self, const char **at, const char *end, uint64_t before)
{
    uint64_t index = 0;
    double number = 0;
    const char *colon = cadre_number_scan_index(*at, end, INT32_MAX, &index);
    const char *after =
        colon && colon < end && *colon == ':' ? cadre_number_scan(colon + 1, end, &number) : NULL;
    if (!after || (after < end && !is_blank(*after))) {
        return refuse_word(*at, end, "index:value with a finite number");
    }
    if (index == 0) {
        return cadre_fail(CADRE_EDATA, "index 0, but indices start at 1");
    }

    if (index <= before) {
        return cadre_fail(CADRE_EDATA, "index %" PRIu64 " after %" PRIu64 ", but indices ascend",
                          index, before);
    }

    if (index > (uint64_t)self->features) {
        return cadre_fail(CADRE_EDATA, "index %" PRIu64 " is above %" PRId64 " features", index,
                          self->features);
    }

    cadre_sparse_item_t item = {.column = (uint32_t)index - 1};
    if (!cadre_reader_scale(self->reader, number, &item.value)) {
        return cadre_fail(CADRE_EDATA, "index %" PRIu64 ": %g does not fit f32", index, number);
    }

    self->items = cadre_grow(self->items, self->count, &self->capacity, sizeof(*self->items));
    self->items[self->count++] = item;
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

/* Fills self->items and `label` from a line that has a label. */
static int
parse_line(libsvm_t *self, const char *at, const char *end, double *label)
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

    self->count = 0;
    while (at < end) {
        uint64_t before = self->count ? self->items[self->count - 1].column + UINT64_C(1) : 0;
        status = parse_item(self, &at, end, before);
        if (status < 0) {
            return status;
        }
        at = skip_blanks(at, end);
    }

    const int64_t items = self->reader->spec->items;
    if (items > 0 && self->count > (uint64_t)items) {
        return cadre_fail(CADRE_EDATA, "%zu items, but \"items\" is %" PRId64, self->count, items);
    }
    return 0;
}

/* Adds the row of a line to the store. A bad line is counted and skipped, as long as so many are
 * allowed. */
static int
add_line(libsvm_t *self, const char *at, const char *end)
{
    cadre_reader_t *reader = self->reader;
    double number = 0;
    cadre_label_t label;
    if (parse_line(self, at, end, &number) < 0 ||
        cadre_label_rule_read(&reader->label, number, &label) < 0) {
        return cadre_bad_lines_add(reader->bad, reader->path,
                                   cadre_data_file_line_number(self->file));
    }

    /* Without a number of features in the description, the largest index of the file is that. */
    if (self->count > 0 && self->items[self->count - 1].column >= reader->features) {
        reader->features = (int64_t)self->items[self->count - 1].column + 1;
    }

    int status = cadre_row_store_add_sparse(reader->store, self->items, self->count, label);
    return status < 0 ? cadre_fail_within(status, "%s", reader->path) : 0;
}

/* Reads all lines of the file; comments and blank lines are skipped. */
static int
read_lines(libsvm_t *self)
{
    for (;;) {
        const char *line = NULL;
        size_t length = 0;
        int status = cadre_data_file_line(self->file, &line, &length);
        if (status <= 0) {
            return status;
        }

        const char *comment = memchr(line, '#', length);
        const char *end = comment ? comment : line + length;
        const char *at = skip_blanks(line, end);
        status = at < end ? add_line(self, at, end) : 0;
        if (status < 0) {
            return status;
        }
    }
}

/* Reads a LIBSVM file into the reader's row store, as sparse rows. */
int
cadre_libsvm_read(cadre_reader_t *self)
{
    int64_t given = self->spec->features;
    libsvm_t libsvm = {.reader = self, .features = given ? given : CADRE_DATA_FEATURES_MAX};
    int status =
        cadre_data_file_open(self->path, self->root, self->content_bytes_max, &libsvm.file);
    if (status < 0) {
        return status;
    }

    self->features = given ? given : 1; /* at least one, should all rows be empty */
    self->store = cadre_row_store_new(CADRE_ROWS_SPARSE, self->spec, 0, self->size_bytes_max);
    status = read_lines(&libsvm);
    if (self->spec->items > 0) {
        self->features = 2 * self->spec->items; /* indices and values */
    }
    free(libsvm.items);
    cadre_data_file_close(&libsvm.file);
    return status;
}
