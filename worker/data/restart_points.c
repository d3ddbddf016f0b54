#include "worker/data/restart_points.h"

#include <stdlib.h>

#include "common/base/memory.h"

void
cadre_restart_points_init(cadre_restart_points_t *self)
{
    *self = (cadre_restart_points_t){.distance = CADRE_RESTART_DISTANCE};
}

void
cadre_restart_points_fini(cadre_restart_points_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->items[i].window);
    }
    free(self->items);
    *self = (cadre_restart_points_t){0};
}

bool
cadre_restart_points_want(const cadre_restart_points_t *self, size_t file, uint64_t content,
                          bool has_window)
{
    const cadre_restart_point_t *last =
        self->count > 0 ? &self->items[self->count - 1] : &(cadre_restart_point_t){.file = file};
    const uint64_t before = last->file == file ? last->content : 0;
    return content >= before + (has_window ? self->distance : CADRE_RESTART_NEAR);
}

/* Gives up every second window. */
static void
thin_out(cadre_restart_points_t *self)
{
    size_t kept = 0;
    self->windows = 0;
    bool keeps = false;
    for (size_t i = 0; i < self->count; i++) {
        cadre_restart_point_t *point = &self->items[i];
        keeps = point->window ? !keeps : keeps;
        if (point->window && !keeps) {
            free(point->window);
            continue;
        }
        self->windows += point->window != NULL;
        self->items[kept++] = *point;
    }
    self->count = kept;
    self->distance *= 2;
}

void
cadre_restart_points_add(cadre_restart_points_t *self, const cadre_restart_point_t *point)
{
    if (point->window && self->windows == CADRE_RESTART_WINDOWS_MAX) {
        thin_out(self);
    }
    self->items = cadre_grow(self->items, self->count, &self->capacity, sizeof(*self->items));
    self->items[self->count++] = *point;
    self->windows += point->window != NULL;
}

void
cadre_restart_points_note_frame(cadre_restart_points_t *self, size_t file, uint64_t size_bytes)
{
    if (size_bytes > self->frame_size_max) {
        self->frame_size_max = size_bytes;
        self->frame_file = file;
    }
}

/* Returns whether a point comes behind a place. */
static bool
is_behind(const cadre_restart_point_t *point, size_t file, uint64_t content)
{
    return point->file > file || (point->file == file && point->content > content);
}

const cadre_restart_point_t *
cadre_restart_points_find(const cadre_restart_points_t *self, size_t file, uint64_t content)
{
    size_t first = 0;
    size_t end = self->count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (is_behind(&self->items[middle], file, content)) {
            end = middle;
        } else {
            first = middle + 1;
        }
    }
    return end > 0 && self->items[end - 1].file == file ? &self->items[end - 1] : NULL;
}

uint64_t
cadre_restart_points_size_bytes(const cadre_restart_points_t *self)
{
    return self->capacity * sizeof(*self->items) +
           (uint64_t)self->windows * CADRE_RESTART_WINDOW_SIZE;
}
