#include "common/spec/kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/status.h"

/* Returns the row of a kind; NULL where the number is out of the table or a gap in it. */
static const cadre_kind_t *
find_row(const cadre_kinds_t *self, uint64_t number)
{
    return number < self->count && self->rows[number].text ? &self->rows[number] : NULL;
}

const char *
cadre_kinds_text(const cadre_kinds_t *self, uint64_t number)
{
    const cadre_kind_t *row = find_row(self, number);
    return row ? row->text : "?";
}

/* Returns how many parameters the kind has, and gives the table that describes them; 0 and NULL for
 * a number that is no kind. */
size_t
cadre_kinds_parameters(const cadre_kinds_t *self, uint64_t number, const cadre_parameter_t **table)
{
    const cadre_kind_t *row = find_row(self, number);
    *table = row ? row->parameters : NULL;
    return row ? row->parameter_count : 0;
}

/* Writes the default of each parameter of a kind; nothing for a number that is no kind. */
void
cadre_kinds_defaults(const cadre_kinds_t *self, uint64_t number, double *parameters)
{
    const cadre_parameter_t *table = NULL;
    size_t count = cadre_kinds_parameters(self, number, &table);
    for (size_t i = 0; i < count; i++) {
        parameters[i] = table[i].initial;
    }
}

/* Fails with a text that names all kinds, as far as they fit into it. */
static int
no_such_kind(const cadre_kinds_t *self, const char *text)
{
    char known[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < self->count; i++) {
        if (self->rows[i].text && at < sizeof(known)) {
            at += (size_t)snprintf(known + at, sizeof(known) - at, " %s", self->rows[i].text);
        }
    }
    return cadre_fail(CADRE_ENOTFOUND, "no %s '%.64s'; there are%s", self->what, text, known);
}

/* Finds the kind called `text` and writes its number and the defaults of its parameters. */
int
cadre_kinds_parse(const cadre_kinds_t *self, const char *text, uint64_t *number, double *parameters)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->rows[i].text && strcmp(text, self->rows[i].text) == 0) {
            *number = i;
            cadre_kinds_defaults(self, i, parameters);
            return 0;
        }
    }
    return no_such_kind(self, text);
}

/* Reads a field of type double from the public struct at `given`, whose type is not known here. */
static double
value_of(const cadre_kind_field_t *field, const void *given)
{
    double value = 0;
    memcpy(&value, (const char *)given + field->offset, sizeof(value));
    return value;
}

/* Returns the public struct's field for a parameter; NULL for one that is no double field there. */
static const cadre_kind_field_t *
find_field(const cadre_kinds_t *self, const char *name)
{
    for (size_t i = 0; i < self->field_count; i++) {
        if (strcmp(self->fields[i].name, name) == 0) {
            return &self->fields[i];
        }
    }
    return NULL;
}

/* Returns whether every double field of the public struct is 0, as in a struct that the program has
 * not filled in. */
bool
cadre_kinds_is_unset(const cadre_kinds_t *self, const void *given)
{
    for (size_t i = 0; i < self->field_count; i++) {
        if (value_of(&self->fields[i], given) != 0) {
            return false;
        }
    }
    return true;
}

/* Copies a kind's parameters from the fields of the public struct at `given`; a parameter without a
 * field there gets its default. */
int
cadre_kinds_take(const cadre_kinds_t *self, uint64_t number, const void *given, double *parameters)
{
    const cadre_kind_t *row = find_row(self, number);
    if (!row) {
        return cadre_fail(CADRE_EINVALID, "%s: kind %d is none; cadre_%s() gives one", self->what,
                          (int)number, self->what);
    }

    for (size_t i = 0; i < row->parameter_count; i++) {
        const cadre_kind_field_t *field = find_field(self, row->parameters[i].name);
        parameters[i] = field ? value_of(field, given) : row->parameters[i].initial;
    }
    return 0;
}

/* Copies a kind's parameters to the fields of the public struct; one without a field is left out.
 * */
void
cadre_kinds_give(const cadre_kinds_t *self, uint64_t number, const double *parameters, void *given)
{
    const cadre_parameter_t *table = NULL;
    size_t count = cadre_kinds_parameters(self, number, &table);
    for (size_t i = 0; i < count; i++) {
        const cadre_kind_field_t *field = find_field(self, table[i].name);
        if (field) {
            memcpy((char *)given + field->offset, &parameters[i], sizeof(parameters[i]));
        }
    }
}

/* Copies the parameters of a kind that came from wire or disk, and checks them. */
int
cadre_kinds_decode(const cadre_kinds_t *self, uint64_t number, const double *parameters,
                   size_t count, double *out)
{
    const cadre_kind_t *row = find_row(self, number);
    if (!row) {
        return cadre_fail(CADRE_EMALFORMED, "%" PRIu64 " is no %s", number, self->what);
    }
    if (count != row->parameter_count) {
        return cadre_fail(CADRE_EMALFORMED, "%s %s has %zu parameters, not %zu", self->what,
                          row->text, row->parameter_count, count);
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = parameters[i];
    }
    return cadre_kinds_check(self, number, out);
}

/* Finds the position of the kind's parameter `name` in its table. */
int
cadre_kinds_find(const cadre_kinds_t *self, uint64_t number, const char *name, size_t *position)
{
    const cadre_parameter_t *table = NULL;
    size_t count = cadre_kinds_parameters(self, number, &table);
    return cadre_parameter_find(table, count, cadre_kinds_text(self, number), name, position);
}

/* Checks the kind's parameters against the ranges in its table. */
int
cadre_kinds_check(const cadre_kinds_t *self, uint64_t number, const double *parameters)
{
    const cadre_parameter_t *table = NULL;
    size_t count = cadre_kinds_parameters(self, number, &table);
    return cadre_parameter_check_all(table, count, cadre_kinds_text(self, number), parameters);
}
