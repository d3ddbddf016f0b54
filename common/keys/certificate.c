#include "common/keys/certificate.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <zmq.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* The fields of a certificate; a file has each at most once. */
typedef enum { FIELD_ROLE, FIELD_NAME, FIELD_PUBLIC_KEY, FIELD_SECRET_KEY, FIELDS } field_t;

typedef enum { SECTION_OTHER, SECTION_METADATA, SECTION_CURVE } section_t;

static const struct {
    section_t section;
    const char *key;
    const char *full_name;
} fields[FIELDS] = {
    [FIELD_ROLE] = {SECTION_METADATA, "role", "metadata.role"},
    [FIELD_NAME] = {SECTION_METADATA, "name", "metadata.name"},
    [FIELD_PUBLIC_KEY] = {SECTION_CURVE, "public-key", "curve.public-key"},
    [FIELD_SECRET_KEY] = {SECTION_CURVE, "secret-key", "curve.secret-key"},
};

typedef struct {
    cadre_certificate_t *certificate;
    section_t section;
    size_t line_number;
    size_t seen[FIELDS]; /* the line in which each field stands; 0: not yet */
} parser_t;

/* A piece of the text that is parsed; not NUL-terminated. */
typedef struct {
    const char *bytes;
    size_t size;
} span_t;

/* A value as a string, which is wiped when its scope ends: it may be a secret. */
typedef struct {
    char bytes[CADRE_CERTIFICATE_SIZE_MAX + 1];
} value_t;

static void
value_wipe(value_t *self)
{
    explicit_bzero(self, sizeof(*self));
}

/* Returns the name of a role, as certificates and file names have it. */
const char *
cadre_key_role_text(cadre_key_role_t role)
{
    switch (role) {
    case CADRE_KEY_COORDINATOR:
        return "coordinator";
    case CADRE_KEY_PS:
        return "ps";
    case CADRE_KEY_WORKER:
        return "worker";
    case CADRE_KEY_CLIENT:
        return "client";
    case CADRE_KEY_ROLES:
        break;
    }

    cadre_assert(role < CADRE_KEY_ROLES);
    return "";
}

/* Returns whether `text` is a key: 40 characters of Z85. */
static bool
is_key(const char *text)
{
    uint8_t key[CADRE_KEY_TEXT_LENGTH / 5 * 4];
    bool valid = strnlen(text, CADRE_KEY_TEXT_SIZE) == CADRE_KEY_TEXT_LENGTH &&
                 zmq_z85_decode(key, text) != NULL;
    explicit_bzero(key, sizeof(key));
    return valid;
}

/* Returns whether a name has 1 to CADRE_NAME_SIZE_MAX printable ASCII characters and no quotes, so
 * that it can stand between quotes in a file. */
static bool
name_valid(const char *name)
{
    size_t length = strnlen(name, CADRE_NAME_SIZE_MAX + 1);
    for (size_t i = 0; i < length; i++) {
        if (name[i] < 0x20 || name[i] > 0x7e || name[i] == '"' || name[i] == '\'') {
            return false;
        }
    }
    return length > 0 && length <= CADRE_NAME_SIZE_MAX;
}

static int
require_curve(void)
{
    return zmq_has("curve") ? 0
                            : cadre_fail(CADRE_ECONFIG, "libzmq was built without CURVE: install "
                                                        "one with it, such as Debian's libzmq5");
}

/* Makes a certificate with a new pair of keys, for a role and a name. */
int
cadre_certificate_make(cadre_key_role_t role, const char *name, cadre_certificate_t *out)
{
    if (!name_valid(name)) {
        return cadre_fail(CADRE_EINVALID,
                          "a key's name has 1 to %d printable ASCII characters, and no quotes",
                          CADRE_NAME_SIZE_MAX);
    }

    int status = require_curve();
    if (status < 0) {
        return status;
    }

    *out = (cadre_certificate_t){.role = role};
    snprintf(out->name, sizeof(out->name), "%s", name);
    int made = zmq_curve_keypair(out->public_key, out->secret_key);
    cadre_assert(made == 0); /* it fails only without CURVE, which was checked */
    return 0;
}

void
cadre_certificate_fini(cadre_certificate_t *self)
{
    explicit_bzero(self, sizeof(*self));
}

/* Writes the certificate as the text of a file (ZPL, ZeroMQ RFC 4) into `text` of
 * CADRE_CERTIFICATE_SIZE_MAX bytes, with its secret key if `secret`; returns `text`. */
const char *
cadre_certificate_text(const cadre_certificate_t *self, bool secret, char *text)
{
    cadre_assert(!secret || self->secret_key[0]);
    int length = snprintf(text, CADRE_CERTIFICATE_SIZE_MAX,
                          "%s\n"
                          "metadata\n"
                          "    name = \"%s\"\n"
                          "    role = \"%s\"\n"
                          "curve\n"
                          "    public-key = \"%s\"\n",
                          secret ? "#   ZeroMQ CURVE **Secret** Certificate\n"
                                   "#   Whoever can read this file can take part as its owner.\n"
                                 : "#   ZeroMQ CURVE Public Certificate\n",
                          self->name, cadre_key_role_text(self->role), self->public_key);
    cadre_assert(length > 0 && length < CADRE_CERTIFICATE_SIZE_MAX);
    if (secret) {
        size_t room = CADRE_CERTIFICATE_SIZE_MAX - (size_t)length;
        int more = snprintf(text + length, room, "    secret-key = \"%s\"\n", self->secret_key);
        cadre_assert(more > 0 && (size_t)more < room);
    }
    return text;
}

/* Returns whether the span holds exactly `text`. */
static bool
span_is(span_t span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.bytes, text, span.size) == 0;
}

static span_t
span_skip(span_t span, size_t count)
{
    return (span_t){span.bytes + count, span.size - count};
}

static size_t
count_spaces(span_t span)
{
    size_t count = 0;
    while (count < span.size && (span.bytes[count] == ' ' || span.bytes[count] == '\t')) {
        count++;
    }
    return count;
}

/* Takes the name at the beginning of `line` off it, and returns the name. */
static span_t
take_name(span_t *line)
{
    static const char others[] = "$-_@.&+/";
    size_t size = 0;
    while (size < line->size) {
        char c = line->bytes[size];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !memchr(others, c, sizeof(others) - 1)) {
            break;
        }
        size++;
    }

    span_t name = {line->bytes, size};
    *line = span_skip(*line, size);
    return name;
}

/* Takes the value after "=" off `line`: between two quotes of one kind, or without quotes up to a
 * comment. */
static int
take_value(parser_t *self, span_t *line, span_t *out)
{
    *line = span_skip(*line, count_spaces(*line));
    char quote = line->size > 0 ? line->bytes[0] : '\0';
    if (quote != '"' && quote != '\'') {
        const char *comment = memchr(line->bytes, '#', line->size);
        size_t size = comment ? (size_t)(comment - line->bytes) : line->size;
        span_t rest = span_skip(*line, size);
        while (size > 0 && (line->bytes[size - 1] == ' ' || line->bytes[size - 1] == '\t')) {
            size--;
        }
        *out = (span_t){line->bytes, size};
        *line = rest;
        return 0;
    }

    *line = span_skip(*line, 1);
    const char *end = memchr(line->bytes, quote, line->size);
    if (!end) {
        return cadre_fail(CADRE_EDATA, "line %zu: the quote is not closed", self->line_number);
    }

    *out = (span_t){line->bytes, (size_t)(end - line->bytes)};
    *line = span_skip(*line, out->size + 1);
    return 0;
}

/* Sets the certificate's role from the text of its field. */
static int
set_role(parser_t *self, const char *value)
{
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        if (strcmp(value, cadre_key_role_text(role)) == 0) {
            self->certificate->role = role;
            return 0;
        }
    }
    return cadre_fail(CADRE_EDATA,
                      "line %zu: metadata.role is none of coordinator, ps, worker and client",
                      self->line_number);
}

/* Sets the public or the secret key from the text of its field. */
static int
set_key(parser_t *self, field_t field, const char *value)
{
    if (!is_key(value)) {
        return cadre_fail(CADRE_EDATA, "line %zu: %s is not a key: %d characters of Z85",
                          self->line_number, fields[field].full_name, CADRE_KEY_TEXT_LENGTH);
    }
    char *key =
        field == FIELD_PUBLIC_KEY ? self->certificate->public_key : self->certificate->secret_key;
    memcpy(key, value, CADRE_KEY_TEXT_SIZE);
    return 0;
}

/* Sets the certificate's name from the text of its field. */
static int
set_name(parser_t *self, const char *value)
{
    if (!name_valid(value)) {
        return cadre_fail(CADRE_EDATA,
                          "line %zu: metadata.name has 1 to %d printable ASCII characters, and no "
                          "quotes",
                          self->line_number, CADRE_NAME_SIZE_MAX);
    }
    snprintf(self->certificate->name, sizeof(self->certificate->name), "%s", value);
    return 0;
}

/* Sets one field of the certificate from its value in the present line; refuses a field that a line
 * before has set. */
static int
set_field(parser_t *self, field_t field, span_t value)
{
    if (self->seen[field]) {
        return cadre_fail(CADRE_EDATA, "line %zu: %s is there already, in line %zu",
                          self->line_number, fields[field].full_name, self->seen[field]);
    }

    self->seen[field] = self->line_number;
    cadre_auto(value_wipe) value_t text = {{0}};
    memcpy(text.bytes, value.bytes, value.size); /* fits: a value is shorter than the whole text */
    switch (field) {
    case FIELD_ROLE:
        return set_role(self, text.bytes);
    case FIELD_NAME:
        return set_name(self, text.bytes);
    case FIELD_PUBLIC_KEY:
    case FIELD_SECRET_KEY:
        return set_key(self, field, text.bytes);
    case FIELDS:
        break;
    }

    cadre_assert(field < FIELDS);
    return 0;
}

static section_t
section_of(span_t name)
{
    if (span_is(name, "metadata")) {
        return SECTION_METADATA;
    }
    return span_is(name, "curve") ? SECTION_CURVE : SECTION_OTHER;
}

/* Takes what a line says: `name` at an indentation of `level`, and its value (NULL: it has none).
 * At level 0 that is a section, at level 1 a field of it; other sections and deeper levels are
 * skipped. */
static int
take_item(parser_t *self, size_t level, span_t name, const span_t *value)
{
    if (level == 0) {
        self->section = section_of(name);
        return value && self->section != SECTION_OTHER
                   ? cadre_fail(CADRE_EDATA, "line %zu: a section has no value", self->line_number)
                   : 0;
    }

    if (level > 1 || self->section == SECTION_OTHER) {
        return 0;
    }

    for (field_t field = 0; field < FIELDS; field++) {
        if (self->section == fields[field].section && span_is(name, fields[field].key)) {
            /* A field without a value has the empty one, which no field takes. */
            return set_field(self, field, value ? *value : (span_t){name.bytes, 0});
        }
    }

    return self->section == SECTION_CURVE
               ? cadre_fail(CADRE_EDATA, "line %zu: curve has public-key and secret-key, no other",
                            self->line_number)
               : 0;
}

/* Parses one line: a section, a field, a comment or nothing. */
static int
parse_line(parser_t *self, span_t line)
{
    for (size_t i = 0; i < line.size; i++) {
        if ((unsigned char)line.bytes[i] < 0x20 && line.bytes[i] != '\t') {
            return cadre_fail(CADRE_EDATA, "line %zu: a control character", self->line_number);
        }
    }

    size_t spaces = count_spaces(line);
    span_t rest = span_skip(line, spaces);
    if (rest.size == 0 || rest.bytes[0] == '#') {
        return 0;
    }

    if (memchr(line.bytes, '\t', spaces) || spaces % 4 != 0) {
        return cadre_fail(CADRE_EDATA, "line %zu: lines are indented by 4 spaces a level",
                          self->line_number);
    }

    /* NAME alone opens a section; NAME = "VALUE" is a field of the section that is open. */
    span_t name = take_name(&rest);
    rest = span_skip(rest, count_spaces(rest));
    span_t value = {0};
    bool valued = name.size > 0 && rest.size > 0 && rest.bytes[0] == '=';
    if (valued) {
        rest = span_skip(rest, 1);
        int status = take_value(self, &rest, &value);
        if (status < 0) {
            return status;
        }
        rest = span_skip(rest, count_spaces(rest));
    }

    if (name.size == 0 || (rest.size > 0 && rest.bytes[0] != '#')) {
        return cadre_fail(CADRE_EDATA, "line %zu: neither NAME nor NAME = \"VALUE\"",
                          self->line_number);
    }

    return take_item(self, spaces / 4, name, valued ? &value : NULL);
}

/* Parses the text line by line, with line ends of Unix or Windows, up to the first error. */
static int
parse_lines(parser_t *self, span_t text)
{
    int status = 0;
    while (text.size > 0 && status == 0) {
        const char *end = memchr(text.bytes, '\n', text.size);
        size_t size = end ? (size_t)(end - text.bytes) : text.size;
        bool carriage_return = size > 0 && text.bytes[size - 1] == '\r';
        self->line_number++;
        status = parse_line(self, (span_t){text.bytes, size - carriage_return});
        text = span_skip(text, end ? size + 1 : size);
    }

    return status;
}

/* Checks what no single line shows: role, name and public key are there, and the secret key, if
 * there is one, belongs to the public key. */
static int
check_whole(const parser_t *self)
{
    for (field_t field = 0; field < FIELD_SECRET_KEY; field++) {
        if (!self->seen[field]) {
            return cadre_fail(CADRE_EDATA, "%s is missing", fields[field].full_name);
        }
    }

    if (!self->seen[FIELD_SECRET_KEY]) {
        return 0;
    }

    char public_key[CADRE_KEY_TEXT_SIZE];
    int status = require_curve();
    if (status < 0) {
        return status;
    }

    if (zmq_curve_public(public_key, self->certificate->secret_key) != 0 ||
        strcmp(public_key, self->certificate->public_key) != 0) {
        return cadre_fail(CADRE_EDATA, "line %zu: this secret key belongs to another public key",
                          self->seen[FIELD_SECRET_KEY]);
    }

    return 0;
}

/* Parses the text of a certificate file, of unknown origin and without a 0 at the end. `out` is
 * written on success only. */
int
cadre_certificate_parse(const char *bytes, size_t size_bytes, cadre_certificate_t *out)
{
    if (size_bytes > CADRE_CERTIFICATE_SIZE_MAX) {
        return cadre_fail(CADRE_EDATA, "longer than a certificate: at most %d bytes",
                          CADRE_CERTIFICATE_SIZE_MAX);
    }

    cadre_auto(cadre_certificate_fini) cadre_certificate_t certificate = {0};
    parser_t parser = {.certificate = &certificate};
    int status = parse_lines(&parser, (span_t){bytes, size_bytes});
    if (status < 0) {
        return status;
    }

    status = check_whole(&parser);
    if (status < 0) {
        return status;
    }

    *out = certificate; /* a copy: what is wiped on return is the local one */
    return 0;
}
