#include "tests/sim/sim_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

static void
clear(sim_push_t *push)
{
    cadre_message_fini(&push->whole);
    cadre_free(&push->triples);
    push->triple_count = 0;
    cadre_free(&push->rows);
    push->row_count = 0;
    push->next = 0;
}

void
sim_parts_fini(sim_parts_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        clear(&self->all[i]);
    }
    free(self->all);
    *self = (sim_parts_t){0};
}

static sim_push_t *
find(sim_parts_t *self, const cadre_message_t *part)
{
    for (size_t i = 0; i < self->count; i++) {
        sim_push_t *push = &self->all[i];
        if (push->incarnation == part->incarnation && push->request == part->request) {
            return push;
        }
    }
    return NULL;
}

static void
append(uint64_t **numbers, size_t *count, const cadre_u64s_t *list)
{
    *numbers = cadre_realloc(*numbers, *count + list->count + 1, sizeof(**numbers));
    for (size_t i = 0; i < list->count; i++) {
        (*numbers)[(*count)++] = list->items[i];
    }
}

void
sim_parts_add(sim_parts_t *self, const cadre_message_t *part)
{
    sim_push_t *push = find(self, part);
    if (!push) {
        self->all = cadre_realloc(self->all, self->count + 1, sizeof(*self->all));
        push = &self->all[self->count++];
        *push = (sim_push_t){.incarnation = part->incarnation, .request = part->request};
    }
    if (part->push.part == 0) {
        clear(push);
        push->whole = *part;
        push->whole.storage = NULL;
        push->whole.chunks = NULL;
        push->whole.chunk_count = 0;
    }
    if (part->push.part != push->next) {
        return;
    }
    append(&push->triples, &push->triple_count, &part->push.partitions);
    append(&push->rows, &push->row_count, &part->push.rows);
    for (size_t i = 0; i < part->chunk_count; i++) {
        cadre_message_add_chunk(&push->whole, cadre_chunk_ref(part->chunks[i]));
    }
    push->next++;
}

const cadre_message_t *
sim_parts_whole(sim_parts_t *self, const cadre_message_t *part)
{
    sim_push_t *push = find(self, part);
    if (!push || push->next != part->push.parts) {
        return NULL;
    }
    push->whole.push.partitions = (cadre_u64s_t){push->triples, push->triple_count};
    push->whole.push.rows = (cadre_u64s_t){push->rows, push->row_count};
    push->whole.push.parts = 0;
    return &push->whole;
}
