#include "common/wire/codec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/status.h"
#include "common/wire/codec_table.h"

enum { LIST_ITEMS_SHOWN = 8 };

/* A line being written; what does not fit is dropped. */
typedef struct {
    char *text;
    size_t size_bytes;
    size_t length;
} line_t;

static void append(line_t *self, const char *format, ...) CADRE_PRINTF(2, 3);

/* Appends formatted text to the line; what does not fit is dropped. */
static void
append(line_t *self, const char *format, ...)
{
    size_t room = self->size_bytes - self->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(self->text + self->length, room, format, arguments);
    va_end(arguments);
    cadre_assert(length >= 0);
    self->length += (size_t)length < room ? (size_t)length : room - 1;
}

static const char *
or_empty(const char *text)
{
    return text ? text : "";
}

/* Appends element `i` of a list. */
static void
append_item(line_t *line, cadre_field_kind_t kind, const void *items, size_t i)
{
    if (kind == CADRE_KIND_U64S) {
        append(line, "%" PRIu64, ((const uint64_t *)items)[i]);
    } else if (kind == CADRE_KIND_F64S) {
        append(line, "%g", ((const double *)items)[i]);
    } else {
        append(line, "\"%s\"", or_empty(((const char *const *)items)[i]));
    }
}

/* Appends a list as "[1,2,3]", a long one cut and with its length. */
static void
append_list(line_t *line, cadre_field_kind_t kind, const void *items, size_t count)
{
    append(line, "[");
    for (size_t i = 0; i < count && i < LIST_ITEMS_SHOWN; i++) {
        append(line, "%s", i ? "," : "");
        append_item(line, kind, items, i);
    }
    if (count > LIST_ITEMS_SHOWN) {
        append(line, ",... %zu in all", count);
    }
    append(line, "]");
}

/* Appends a field as " name=value" to the line for the log, a status by its name. */
static void
append_field(line_t *line, const cadre_field_schema_t *field, const void *value)
{
    append(line, " %s=", field->name);
    switch (field->kind) {
    case CADRE_KIND_U64: {
        uint64_t number = *(const uint64_t *)value;
        if (strcmp(field->name, "status") == 0 && number <= INT16_MAX) {
            append(line, "%s", cadre_status_name(-(int)number));
        } else {
            append(line, "%" PRIu64, number);
        }
        break;
    }
    case CADRE_KIND_STR:
    case CADRE_KIND_TEXT:
        append(line, "\"%s\"", or_empty(*(const char *const *)value));
        break;
    case CADRE_KIND_U64S: {
        const cadre_u64s_t *list = value;
        append_list(line, field->kind, list->items, list->count);
        break;
    }
    case CADRE_KIND_F64S: {
        const cadre_f64s_t *list = value;
        append_list(line, field->kind, list->items, list->count);
        break;
    }
    case CADRE_KIND_STRS: {
        const cadre_strs_t *list = value;
        append_list(line, field->kind, list->items, list->count);
        break;
    }
    }
}

/* Writes a message as one line for logs into `text`; returns `text`. */
const char *
cadre_message_text(const cadre_message_t *message, char *text, size_t size_bytes)
{
    cadre_assert(size_bytes > 0);
    line_t line = {.text = text, .size_bytes = size_bytes};
    append(&line, "%s request=%" PRIu64, cadre_message_type_text(message->type), message->request);
    const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)message->type);
    for (size_t i = 0; schema && i < schema->field_count; i++) {
        append_field(&line, &schema->fields[i], (const char *)message + schema->fields[i].offset);
    }

    if (message->chunk_count > 0) {
        size_t payload_bytes = 0;
        for (size_t i = 0; i < message->chunk_count; i++) {
            payload_bytes += cadre_chunk_size_bytes(message->chunks[i]);
        }
        append(&line, " chunks=%zu payload_bytes=%zu", message->chunk_count, payload_bytes);
    }

    return text;
}
