#include "common/wire/message.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/wire/codec_table.h"

const char *
cadre_message_type_text(cadre_message_type_t type)
{
    const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)type);
    return schema ? schema->text : "?";
}

cadre_plane_t
cadre_message_plane(cadre_message_type_t type)
{
    const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)type);
    return schema ? schema->plane : CADRE_PLANE_CONTROL;
}

/* Returns the name of a role, as logs and messages have it; "?" for an unknown one. */
const char *
cadre_role_text(cadre_role_t role)
{
    switch (role) {
    case CADRE_ROLE_COORDINATOR:
        return "coordinator";
    case CADRE_ROLE_PS:
        return "ps";
    case CADRE_ROLE_WORKER:
        return "worker";
    case CADRE_ROLE_EVALUATOR:
        return "evaluator";
    case CADRE_ROLE_CLIENT:
        return "client";
    }
    return "?";
}

/* Returns the field that says for which shard a message is; NULL for a message that is not for ps
 * alone, or has no such field. */
const uint64_t *
cadre_message_shard(const cadre_message_t *self)
{
    const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)self->type);
    if (!schema || schema->receivers != 1U << CADRE_ROLE_PS) {
        return NULL;
    }
    for (size_t i = 0; i < schema->field_count; i++) {
        if (strcmp(schema->fields[i].name, "shard") == 0) {
            return (const void *)((const char *)self + schema->fields[i].offset);
        }
    }
    return NULL;
}

/* Appends one payload chunk; takes the caller's reference. */
void
cadre_message_add_chunk(cadre_message_t *self, cadre_chunk_t *chunk)
{
    cadre_assert(chunk);
    cadre_assert(self->chunk_count < CADRE_MESSAGE_CHUNKS_MAX);
    self->chunks = cadre_realloc(self->chunks, self->chunk_count + 1, sizeof(cadre_chunk_t *));
    self->chunks[self->chunk_count++] = chunk;
}

size_t
cadre_message_chunks_size_bytes(const cadre_message_t *self)
{
    size_t size_bytes = 0;
    for (size_t i = 0; i < self->chunk_count; i++) {
        size_bytes += cadre_chunk_size_bytes(self->chunks[i]);
    }
    return size_bytes;
}

/* Drops the references to the chunks, and frees the decoded strings and lists. */
void
cadre_message_fini(cadre_message_t *self)
{
    for (size_t i = 0; i < self->chunk_count; i++) {
        cadre_chunk_unref(&self->chunks[i]);
    }
    free(self->chunks);
    free(self->storage);
    self->chunks = NULL;
    self->chunk_count = 0;
    self->storage = NULL;
}
