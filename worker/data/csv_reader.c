/*
 * Fields are numbers, bare or in double quotes, with blanks around them; a quoted field ends on its
 * line. The label may stand in any column; the others, in order, are x. Columns that hold words or
 * bags are read by column_ids.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/column_ids.h"
#include "worker/data/number.h"
#include "worker/data/reader.h"

enum { COLUMN_TEXT_SIZE = 64 /* bytes of "column 2 kind" */ };

struct cadre_csv {
    cadre_reader_t *reader;
    char delimiter;
    bool at_first_line; /* no line of the file but blank ones was read */
    bool quotes_ok; /* the quotes of the field that was cut last are closed and doubled correctly */
    int64_t columns; /* number of columns, which every line has; 0 before the first line */
    int64_t label;   /* column of the label, from 0 */
    int64_t *places; /* [columns]: where in a row the column's first number is; -1: nowhere */
    /* [columns]: how a column with words is read, without its name, since the description may be
     * gone by then; zeroed: it holds one number, or is not read */
    cadre_data_column_t *words;
    bool has_words; /* one of the columns has */
    char **names;   /* [columns]: names from the header row; NULL without one */
    float *x;       /* features of the line being read */
};

typedef struct {
    const char *start; /* content, without blanks and outer quotes */
    const char *stop;
    bool is_quoted; /* it had outer quotes: one inside is doubled */
} field_t;

static bool
is_blank(const cadre_csv_t *self, char character)
{
    return (character == ' ' || character == '\t') && character != self->delimiter;
}

/* Returns the closing quote of a field whose opening quote is at `start`, or NULL; a quote inside
 * the field is doubled. */
static const char *
find_closing_quote(const char *start, const char *end)
{
    for (const char *at = start + 1; at < end; at++) {
        if (*at == '"' && (at + 1 == end || at[1] != '"')) {
            return at;
        }
        at += *at == '"';
    }
    return NULL;
}

/* Cuts the field that starts at `at`: gives its content without blanks and quotes, and notes in
 * self->quotes_ok whether its quotes are right. Returns the delimiter behind it, or `end`. */
static const char *
cut_field(cadre_csv_t *self, const char *at, const char *end, field_t *out)
{
    self->quotes_ok = true;
    while (at < end && is_blank(self, *at)) {
        at++;
    }

    const char *closing = at < end && *at == '"' ? find_closing_quote(at, end) : NULL;
    const char *stop = closing ? closing + 1 : at;
    const char *after = memchr(stop, self->delimiter, (size_t)(end - stop));
    after = after ? after : end;
    *out = (field_t){.start = at, .stop = after};
    while (out->start < out->stop && is_blank(self, out->stop[-1])) {
        out->stop--;
    }

    /* Only blanks may stand between a closing quote and the delimiter. */
    if (at < end && *at == '"') {
        self->quotes_ok = closing && out->stop == stop;
        out->start += self->quotes_ok;
        out->stop -= self->quotes_ok;
        out->is_quoted = self->quotes_ok;
    }

    return after;
}

/* Returns how many fields a line has. */
static int64_t
count_fields(cadre_csv_t *self, const char *at, const char *end)
{
    field_t field;
    int64_t count = 1;
    for (at = cut_field(self, at, end, &field); at < end;
         at = cut_field(self, at + 1, end, &field)) {
        count++;
    }
    return count;
}

/* Writes how messages call a column, "column 2 kind", to `text`, and returns it. */
static const char *
column_text(const cadre_csv_t *self, int64_t column, char text[COLUMN_TEXT_SIZE])
{
    char name[CADRE_BAD_LINES_TOKEN_SIZE] = "";
    if (self->names) {
        const char *given = self->names[column];
        cadre_bad_lines_token(given, given + strlen(given), name);
    }
    snprintf(text, COLUMN_TEXT_SIZE, "column %" PRId64 "%s%s", column, *name ? " " : "", name);
    return text;
}

/* Fails because a line has too few or too many fields. */
static int
refuse_count(const cadre_csv_t *self, int64_t fields)
{
    return cadre_fail(CADRE_EDATA, "%" PRId64 " fields, expected %" PRId64, fields, self->columns);
}

/* Fails with a text that says what is wrong with the field in `column`, or with the whole line if
 * it has too few or too many fields (`fields`). */
static int
refuse_field(cadre_csv_t *self, int64_t column, const field_t *field, int64_t fields)
{
    char text[COLUMN_TEXT_SIZE];
    char token[CADRE_BAD_LINES_TOKEN_SIZE];
    column_text(self, column, text);
    if (fields != self->columns) {
        return refuse_count(self, fields);
    }
    if (!self->quotes_ok) {
        return cadre_fail(CADRE_EDATA, "%s: quotes do not match", text);
    }
    if (field->start == field->stop) {
        return cadre_fail(CADRE_EDATA, "%s is empty", text);
    }
    return cadre_fail(CADRE_EDATA, "%s: '%s' is no finite number", text,
                      cadre_bad_lines_token(field->start, field->stop, token));
}

/* Returns a copy of a field in which doubled quotes are single. */
static char *
copy_field(const field_t *field)
{
    char *text = cadre_strndup(field->start, (size_t)(field->stop - field->start));
    char *to = text;
    for (const char *from = text; *from; from++) {
        *to++ = *from;
        if (from[0] == '"' && from[1] == '"') {
            from++;
        }
    }
    *to = '\0';
    return text;
}

/* Reads the number of a field that may have blanks or quotes; false when the field is no number. */
static bool
parse_field(cadre_csv_t *self, const char **at, const char *end, field_t *field, double *number)
{
    *at = cut_field(self, *at, end, field);
    return self->quotes_ok && field->start < field->stop &&
           cadre_number_scan(field->start, field->stop, number) == field->stop;
}

/* Returns whether a column is the label or a feature; another one may hold any text whose quotes
 * are right. */
static bool
is_read(const cadre_csv_t *self, int64_t column)
{
    return column == self->label || self->places[column] >= 0 || !self->quotes_ok;
}

/* Reads the words, or the bag, in the field at `*at` of a line, and moves `*at` behind it. */
static int
parse_words(cadre_csv_t *self, int64_t column, const char **at, const char *end)
{
    field_t field;
    char text[COLUMN_TEXT_SIZE];
    *at = cut_field(self, *at, end, &field);
    if (!self->quotes_ok) {
        return cadre_fail(CADRE_EDATA, "%s: quotes do not match", column_text(self, column, text));
    }

    const size_t length = (size_t)(field.stop - field.start);
    const bool is_doubled = field.is_quoted && memchr(field.start, '"', length);
    cadre_auto(cadre_free) char *copy = is_doubled ? copy_field(&field) : NULL;
    const char *start = copy ? copy : field.start;
    int status =
        cadre_column_ids_read(&self->words[column], start, copy ? copy + strlen(copy) : field.stop,
                              &self->x[self->places[column]]);
    return status < 0 ? cadre_fail_within(status, "%s", column_text(self, column, text)) : 0;
}

/* Fails with `status` and this thread's error text, which says what is wrong with the words of a
 * line, unless it has too few or too many fields. */
static int
refuse_words(cadre_csv_t *self, const char *line, const char *end, int status)
{
    int64_t fields = count_fields(self, line, end);
    return fields == self->columns ? status : refuse_count(self, fields);
}

/* Fills self->x and `label` from a line. */
static int
parse_line(cadre_csv_t *self, const char *line, const char *end, double *label)
{
    const char *at = line;

    for (int64_t column = 0; column < self->columns; column++) {
        /* Most fields are plain numbers: one scan, no look at quotes or blanks. */
        double number = 0;
        field_t field = {.start = at, .stop = at};
        const bool is_words = self->has_words && cadre_data_column_has_words(&self->words[column]);
        const char *after = is_words ? NULL : cadre_number_scan(at, end, &number);
        if (after && (after == end || *after == self->delimiter)) {
            field.stop = after;
            at = after;
        } else if (is_words) {
            int status = parse_words(self, column, &at, end);
            if (status < 0) {
                return refuse_words(self, line, end, status);
            }
        } else if (!parse_field(self, &at, end, &field, &number) && is_read(self, column)) {
            /* Counting cuts all fields again, and so forgets how the quotes of this one were. */
            bool quotes_ok = self->quotes_ok;
            int64_t fields = count_fields(self, line, end);
            self->quotes_ok = quotes_ok;
            return refuse_field(self, column, &field, fields);
        }

        /* The line ends behind the last column, and only there. */
        bool last = column == self->columns - 1;
        if ((at == end) != last) {
            return refuse_count(self, count_fields(self, line, end));
        }

        at += !last; /* skips the delimiter */
        const int64_t place = self->places[column];
        if (column == self->label) {
            *label = number;
        } else if (place >= 0 && !is_words &&
                   !cadre_reader_scale(self->reader, number, &self->x[place])) {
            return cadre_fail(CADRE_EDATA, "column %" PRId64 ": %g does not fit f32", column,
                              number);
        }
    }

    return 0;
}

/* Adds the row of a line to the store. A bad line is counted and skipped, as long as so many are
 * allowed. */
static int
add_line(cadre_csv_t *self, const char *line, const char *end)
{
    double number = 0;
    cadre_label_t label;
    if (parse_line(self, line, end, &number) < 0 ||
        cadre_label_rule_read(&self->reader->label, number, &label) < 0) {
        return cadre_bad_lines_add(self->reader->bad, cadre_reader_path(self->reader),
                                   cadre_data_file_line_number(self->reader->file));
    }

    int status = cadre_row_store_add(self->reader->store, self->x, label);
    return status < 0 ? cadre_fail_within(status, "%s", cadre_reader_path(self->reader)) : 0;
}

/* Reads the next line that is not blank; returns 1, 0 at the end of the file, or a failure. */
static int
next_line(cadre_csv_t *self, const char **line, const char **end)
{
    for (;;) {
        size_t length = 0;
        int status = cadre_data_file_line(self->reader->file, line, &length);
        if (status <= 0) {
            return status;
        }

        /* The byte order mark, with which some programs begin a UTF-8 file, is skipped. */
        if (cadre_data_file_line_number(self->reader->file) == 1 && length >= 3 &&
            memcmp(*line, "\xef\xbb\xbf", 3) == 0) {
            *line += 3;
            length -= 3;
        }

        *end = *line + length;
        for (const char *at = *line; at < *end; at++) {
            if (*at != ' ' && *at != '\t') {
                return 1;
            }
        }
    }
}

/* Returns whether a field is written as a number, even one that is too large to be read. */
static bool
is_written_as_number(const field_t *field)
{
    bool has_digit = false;
    for (const char *at = field->start; at < field->stop; at++) {
        bool is_digit = *at >= '0' && *at <= '9';
        has_digit = has_digit || is_digit;
        if (!is_digit && !strchr("+-.eE", *at)) {
            return false;
        }
    }
    return has_digit;
}

/* Returns whether a field is a word for a missing number ("nan" and the like): such a field does
 * not make its line a header row. */
static bool
is_missing_value(const field_t *field)
{
    static const char *const words[] = {"nan", "inf", "infinity", "na", "n/a", "null", "none", "?"};
    const char *start = field->start;
    if (*start == '+' || *start == '-') {
        start++;
    }

    size_t length = (size_t)(field->stop - start);
    for (size_t i = 0; i < CADRE_COUNT_OF(words); i++) {
        if (strlen(words[i]) == length && strncasecmp(start, words[i], length) == 0) {
            return true;
        }
    }

    return false;
}

/* Returns whether a line is a header row: one of its fields is neither a number nor a word for a
 * missing one. If other fields are numbers, the line may be bad data: it is noted as doubtful. */
static bool
looks_like_header(cadre_csv_t *self, const char *line, const char *end)
{
    const char *at = line;
    bool named = false;
    bool numbered = false;

    for (;;) {
        field_t field;
        double number = 0;
        const char *after = cut_field(self, at, end, &field);
        bool is_number = cadre_number_scan(field.start, field.stop, &number) == field.stop;

        numbered = numbered || (is_number && field.start < field.stop);
        named = named || (field.start < field.stop && !is_missing_value(&field) &&
                          !is_written_as_number(&field) && !is_number);
        if (after == end) {
            if (named && numbered) {
                cadre_bad_lines_token(line, end, self->reader->doubtful_header);
            }
            return named;
        }

        at = after + 1;
    }
}

/* Reads the names of all columns from the header row. */
static void
read_names(cadre_csv_t *self, const char *line, const char *end)
{
    self->names = cadre_calloc((size_t)self->columns, sizeof(*self->names));
    const char *at = line;
    for (int64_t column = 0; column < self->columns; column++) {
        field_t field;
        at = cut_field(self, at, end, &field);
        self->names[column] = copy_field(&field);
        at += at < end;
    }
}

/* Finds the column with a name of the data description. */
static int
find_name(const cadre_csv_t *self, const char *wanted, int64_t *found)
{
    char token[CADRE_BAD_LINES_TOKEN_SIZE];

    cadre_bad_lines_token(wanted, wanted + strlen(wanted), token);
    if (!self->names) {
        return cadre_fail(CADRE_EDATA, "no header row, so no column '%s'", token);
    }

    *found = -1;
    for (int64_t column = 0; column < self->columns; column++) {
        if (strcmp(self->names[column], wanted) != 0) {
            continue;
        }
        if (*found >= 0) {
            return cadre_fail(CADRE_EDATA, "two columns '%s'", token);
        }
        *found = column;
    }

    return *found >= 0 ? 0 : cadre_fail(CADRE_EDATA, "the header has no column '%s'", token);
}

/* Finds which column is the label, as the job's data description says. */
static int
find_label(cadre_csv_t *self)
{
    const cadre_data_spec_t *spec = self->reader->spec;
    if (self->columns < 2) {
        return cadre_fail(CADRE_EDATA, "one column; features and a label need two (delimiter '%c')",
                          self->delimiter);
    }

    switch (spec->label_at) {
    case CADRE_LABEL_AT_LAST:
        self->label = self->columns - 1;
        return 0;
    case CADRE_LABEL_AT_FIRST:
        self->label = 0;
        return 0;
    case CADRE_LABEL_AT_INDEX:
        self->label = spec->label_index;
        return self->label < self->columns
                   ? 0
                   : cadre_fail(CADRE_EDATA,
                                "no label column %" PRId64 " (from 0) in %" PRId64 " columns",
                                self->label, self->columns);
    case CADRE_LABEL_AT_NAME:
        break;
    }

    return find_name(self, spec->label_name, &self->label);
}

/* Makes every column but the label a feature, in their order. */
static void
place_all(cadre_csv_t *self)
{
    for (int64_t column = 0; column < self->columns; column++) {
        if (column != self->label) {
            self->places[column] = self->reader->features++;
        }
    }
}

/* Finds a column that the data description names as a feature, and gives it the next place. */
static int
place_column(cadre_csv_t *self, const cadre_data_column_t *wanted)
{
    int64_t column = wanted->index;
    int status = wanted->name ? find_name(self, wanted->name, &column) : 0;
    if (status < 0) {
        return status;
    }
    if (column >= self->columns) {
        return cadre_fail(CADRE_EDATA, "no column %" PRId64 " (from 0) in %" PRId64 " columns",
                          column, self->columns);
    }
    if (column == self->label || self->places[column] >= 0) {
        return cadre_fail(CADRE_EDATA, "column %" PRId64 " in \"columns\" is %s", column,
                          column == self->label ? "the label" : "there twice");
    }
    self->places[column] = self->reader->features;
    if (cadre_data_column_has_words(wanted)) {
        self->words[column] = *wanted;
        self->words[column].name = NULL;
        self->has_words = true;
    }
    self->reader->features += cadre_data_column_width(wanted);
    return 0;
}

/* Finds which columns are features, as the job's data description says. */
static int
find_features(cadre_csv_t *self)
{
    const cadre_data_spec_t *spec = self->reader->spec;
    self->reader->features = 0;
    self->places = cadre_calloc((size_t)self->columns, sizeof(*self->places));
    self->words = cadre_calloc((size_t)self->columns, sizeof(*self->words));
    for (int64_t column = 0; column < self->columns; column++) {
        self->places[column] = -1;
    }
    if (spec->column_count == 0) {
        place_all(self);
        return 0;
    }
    for (size_t i = 0; i < spec->column_count; i++) {
        int status = place_column(self, &spec->columns[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Learns columns, names, label and features from the first line of the first file. */
static int
learn(cadre_csv_t *self, const char *line, const char *end, bool is_header)
{
    cadre_reader_t *reader = self->reader;
    self->columns = count_fields(self, line, end);
    if (self->columns > CADRE_DATA_FEATURES_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%" PRId64 " columns, at most %d are allowed",
                          self->columns, CADRE_DATA_FEATURES_MAX);
    }

    if (is_header) {
        read_names(self, line, end);
    }

    int status = find_label(self);
    if (status < 0) {
        return status;
    }

    status = find_features(self);
    if (status < 0) {
        return status;
    }

    cadre_reader_make_store(reader, CADRE_ROWS_F32, reader->features);
    self->x = cadre_calloc((size_t)reader->features, sizeof(*self->x));
    return 0;
}

/* Fails when the header of a further file has other names than that of the first: its columns would
 * be others. */
static int
check_names(cadre_csv_t *self, const char *line, const char *end)
{
    const char *first = self->reader->files.items[0];
    if (!self->names) {
        return cadre_fail(CADRE_EDATA, "a header row, but %s has none", first);
    }
    if (count_fields(self, line, end) != self->columns) {
        return cadre_fail(CADRE_EDATA, "%" PRId64 " names in the header, but %" PRId64 " in %s",
                          count_fields(self, line, end), self->columns, first);
    }
    const char *at = line;
    for (int64_t column = 0; column < self->columns; column++) {
        field_t field;
        at = cut_field(self, at, end, &field);
        cadre_auto(cadre_free) char *name = copy_field(&field);
        if (strcmp(name, self->names[column]) != 0) {
            char token[CADRE_BAD_LINES_TOKEN_SIZE];
            return cadre_fail(
                CADRE_EDATA, "column %" PRId64 " has the name '%s', which is another one in %s",
                column, cadre_bad_lines_token(name, name + strlen(name), token), first);
        }
        at += at < end;
    }
    return 0;
}

/* Reads the first line of a file, which may be a header. Returns 1 when it was one, else 0, or a
 * failure. */
static int
begin(cadre_csv_t *self, const char *line, const char *end)
{
    const cadre_csv_header_t header = self->reader->spec->header;
    /* A row with words looks like a header: in a further file it is one when it has the names. */
    const bool by_names = self->columns > 0 && self->has_words && header == CADRE_HEADER_AUTO;
    if (by_names) {
        return check_names(self, line, end) == 0;
    }

    const bool is_header = header == CADRE_HEADER_YES ||
                           (header == CADRE_HEADER_AUTO && looks_like_header(self, line, end));
    int status = 0;
    if (self->columns == 0) {
        status = learn(self, line, end, is_header);
    } else if (is_header) {
        status = check_names(self, line, end);
    }
    return status < 0 ? status : is_header;
}

/* Remembers that a file begins, whose first line may be a header. */
int
cadre_csv_begin(cadre_reader_t *self)
{
    if (!self->csv) {
        self->csv = cadre_calloc(1, sizeof(*self->csv));
        self->csv->reader = self;
        self->csv->delimiter = self->spec->delimiter;
    }
    self->csv->at_first_line = self->from == 0;
    return 0;
}

/* Reads the next line of a CSV file into the reader's row store. */
int
cadre_csv_next(cadre_reader_t *self)
{
    cadre_csv_t *csv = self->csv;
    const char *line = NULL;
    const char *end = NULL;
    int more = next_line(csv, &line, &end);
    if (more <= 0) {
        return more;
    }

    int header = csv->at_first_line ? begin(csv, line, end) : 0;
    csv->at_first_line = false;
    if (header < 0) {
        return cadre_fail_within(header, "%s:%" PRId64, cadre_reader_path(self),
                                 cadre_data_file_line_number(self->file));
    }

    int status = header ? 0 : add_line(csv, line, end);
    return status < 0 ? status : 1;
}

void
cadre_csv_end(cadre_reader_t *self)
{
    cadre_csv_t *csv = self->csv;
    if (!csv) {
        return;
    }
    for (int64_t i = 0; csv->names && i < csv->columns; i++) {
        free(csv->names[i]);
    }
    free(csv->names);
    free(csv->places);
    free(csv->words);
    free(csv->x);
    cadre_free(&self->csv);
}
