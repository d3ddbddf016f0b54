/*
 * Click logs as Criteo has published them (Display Advertising Challenge; Terabyte): a line of 40
 * columns between tabs: label 0 or 1, 13 whole numbers, 26 words, of which any may be empty.
 *
 * A row is the 13 numbers x as log(1 + max(x, 0)), 0 where there is none (Naumov and others 2019,
 * "Deep learning recommendation model"), then 26 ids: of a word its XXH3-64 with the column's
 * number from 0 as the seed, to 1 .. buckets - 1; 0 where there is none. Or 26 keys: all bits of
 * that hash, in CADRE_KEY_PARTS numbers each.
 */
#include <cadre/program.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/column_ids.h"
#include "worker/data/number.h"
#include "worker/data/reader.h"

enum {
    NUMBERS = 13,
    WORDS = 26,
    COLUMNS = 1 + NUMBERS + WORDS,
    FEATURES_MAX = NUMBERS + CADRE_KEY_PARTS * WORDS, /* of a row with keys */
};

/* A column of the line. */
typedef struct {
    const char *at;
    const char *end;
} field_t;

/* Cuts the line at its tabs. */
static int
cut_line(const char *at, const char *end, field_t fields[COLUMNS])
{
    int count = 0;
    for (;;) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        if (count < COLUMNS) {
            fields[count] = (field_t){at, tab ? tab : end};
        }
        count++;
        if (!tab) {
            break;
        }
        at = tab + 1;
    }
    return count == COLUMNS
               ? 0
               : cadre_fail(CADRE_EDATA, "%d columns between tabs, not %d", count, COLUMNS);
}

/* Reads the number in column `index`, which must be no other text. */
static int
read_number(const field_t *fields, int index, double *out)
{
    const field_t *field = &fields[index];
    if (cadre_number_scan(field->at, field->end, out) != field->end) {
        char token[CADRE_BAD_LINES_TOKEN_SIZE];
        return cadre_fail(CADRE_EDATA, "column %d: '%s' is no finite number", index,
                          cadre_bad_lines_token(field->at, field->end, token));
    }
    return 0;
}

/* Writes the id of the word in column `index` of the words, or its key. */
static void
write_word(const cadre_reader_t *self, const field_t *field, int index, float *words)
{
    const size_t length = (size_t)(field->end - field->at);
    if (self->spec->has_keys) {
        cadre_data_column_write_key(
            cadre_column_ids_key_of_word(field->at, length, (uint64_t)index),
            &words[CADRE_KEY_PARTS * index]);
    } else {
        words[index] = (float)cadre_column_ids_of_word(field->at, length, (uint64_t)index,
                                                       self->spec->buckets);
    }
}

/* Fills the row and reads the label. */
static int
parse_line(const cadre_reader_t *self, const char *line, size_t length, float x[FEATURES_MAX],
           double *label)
{
    field_t fields[COLUMNS];
    int status = cut_line(line, line + length, fields);
    if (status < 0) {
        return status;
    }

    status = read_number(fields, 0, label);
    for (int i = 0; status == 0 && i < NUMBERS; i++) {
        double number = 0;
        if (fields[1 + i].at < fields[1 + i].end) {
            status = read_number(fields, 1 + i, &number);
        }
        if (status == 0 && !cadre_reader_scale(self, log1p(fmax(number, 0)), &x[i])) {
            return cadre_fail(CADRE_EDATA, "column %d: %g does not fit f32", 1 + i, number);
        }
    }
    for (int i = 0; status == 0 && i < WORDS; i++) {
        write_word(self, &fields[1 + NUMBERS + i], i, &x[NUMBERS]);
    }
    return status;
}

/* Adds the row of a line to the store. A bad line is counted and skipped, as long as so many are
 * allowed. */
static int
add_line(cadre_reader_t *self, const char *line, size_t length)
{
    float x[FEATURES_MAX];
    double number = 0;
    cadre_label_t label;
    if (parse_line(self, line, length, x, &number) < 0 ||
        cadre_label_rule_read(&self->label, number, &label) < 0) {
        return cadre_bad_lines_add(self->bad, cadre_reader_path(self),
                                   cadre_data_file_line_number(self->file));
    }
    int status = cadre_row_store_add(self->store, x, label);
    return status < 0 ? cadre_fail_within(status, "%s", cadre_reader_path(self)) : 0;
}

int
cadre_criteo_begin(cadre_reader_t *self)
{
    self->features = self->spec->has_keys ? FEATURES_MAX : NUMBERS + WORDS;
    cadre_reader_make_store(self, CADRE_ROWS_F32, self->features);
    return 0;
}

/* Reads the next line of a click log. */
int
cadre_criteo_next(cadre_reader_t *self)
{
    const char *line = NULL;
    size_t length = 0;
    int more = cadre_data_file_line(self->file, &line, &length);
    if (more <= 0) {
        return more;
    }
    int status = length > 0 ? add_line(self, line, length) : 0;
    return status < 0 ? status : 1;
}

void
cadre_criteo_end(cadre_reader_t *self)
{
    (void)self; /* it remembers nothing */
}
