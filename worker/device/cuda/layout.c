#include "worker/device/cuda/layout.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "worker/device/arena.h"

/* Returns the next aligned offset for `size_bytes`, and moves *end behind it. */
static size_t
take(size_t *end, size_t size_bytes)
{
    size_t offset = *end;
    *end = cadre_arena_round(offset + size_bytes);
    return offset;
}

/* ---- inputs ---- */

/* Adds a variable or argument to a list of inputs; its offset comes later. */
static void
add_input(cadre_layout_input_t **inputs, int *count, const cadre_plan_value_t *value)
{
    *inputs = cadre_realloc(*inputs, (size_t)*count + 1, sizeof(**inputs));
    (*inputs)[(*count)++] =
        (cadre_layout_input_t){.index = value->place.index, .size_bytes = value->size_bytes};
}

/* Gives the seed and each variable and argument that is used a place in the part that is copied in:
 * variables first, so that they are in the same place for every batch size. */
static void
place_inputs(cadre_layout_t *self, const cadre_plan_t *plan)
{
    for (int i = 0; i < plan->value_count; i++) {
        const cadre_plan_value_t *value = &plan->values[i];
        if (!value->live || value->root != i) {
            continue;
        }
        if (value->place.kind == CADRE_PLACE_ARGUMENT) {
            add_input(&self->arguments, &self->argument_count, value);
        } else if (value->place.kind == CADRE_PLACE_VARIABLE) {
            add_input(&self->variables, &self->variable_count, value);
        }
    }
    size_t end = 0;
    self->seed_offset = take(&end, sizeof(uint64_t));
    for (int i = 0; i < self->variable_count; i++) {
        self->variables[i].offset = take(&end, self->variables[i].size_bytes);
    }
    for (int i = 0; i < self->argument_count; i++) {
        self->arguments[i].offset = take(&end, self->arguments[i].size_bytes);
    }
    self->in_size_bytes = end;
    self->out_offset = end;
}

/* ---- outputs ---- */

/* Adds a gradient or result to the outputs. `ready`: the step that writes it. */
static void
add_output(cadre_layout_t *self, const cadre_plan_value_t *value, cadre_plan_place_t place,
           int ready)
{
    self->outputs =
        cadre_realloc(self->outputs, (size_t)self->output_count + 1, sizeof(*self->outputs));
    self->outputs[self->output_count++] = (cadre_layout_output_t){
        .place = place, .size_bytes = value->size_bytes, .ready = ready, .dtype = value->dtype};
}

/* Returns whether a place is a gradient or a result. */
static bool
is_output(cadre_plan_place_t place)
{
    return place.kind == CADRE_PLACE_GRADIENT || place.kind == CADRE_PLACE_RESULT;
}

/* Collects the outputs in the order in which the steps that write them run. */
static void
collect_outputs(cadre_layout_t *self, const cadre_plan_t *plan)
{
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_value_t *value = &plan->values[plan->steps[at].output];
        if (is_output(value->place)) {
            add_output(self, value, value->place, at);
        }
    }
    for (int i = 0; i < plan->copy_count; i++) {
        add_output(self, &plan->values[plan->copies[i].value], plan->copies[i].to,
                   plan->step_count);
    }
}

/* Ends a group of outputs, which lie side by side and are copied out together; `end`: where it
 * ends. It is ready with the last step that writes one of them. */
static void
end_group(cadre_layout_t *self, int first, int count, size_t end)
{
    size_t begin = self->group_count > 0 ? self->groups[self->group_count - 1].offset +
                                               self->groups[self->group_count - 1].size_bytes
                                         : self->out_offset;
    self->groups[self->group_count++] =
        (cadre_layout_group_t){.first = first,
                               .count = count,
                               .offset = begin,
                               .size_bytes = end - begin,
                               .ready = count > 0 ? self->outputs[first + count - 1].ready : 0};
}

/* Places the outputs and forms groups. The flags come with the last group, which is copied when
 * every step has run, since any step may set them. */
static void
place_outputs(cadre_layout_t *self, const cadre_plan_t *plan)
{
    size_t end = self->out_offset;
    size_t begin = end;
    int first = 0;
    for (int i = 0; i < self->output_count; i++) {
        self->outputs[i].offset = take(&end, self->outputs[i].size_bytes);
        bool last = self->group_count == CADRE_LAYOUT_GROUPS_MAX - 1;
        if (!last && end - begin >= CADRE_LAYOUT_GROUP_SIZE_MIN) {
            end_group(self, first, i + 1 - first, end);
            first = i + 1;
            begin = end;
        }
    }
    self->flags_offset = take(&end, CADRE_LAYOUT_FLAGS * sizeof(int32_t));
    end_group(self, first, self->output_count - first, end);
    self->groups[self->group_count - 1].ready = plan->step_count;
    self->out_size_bytes = end - self->out_offset;
    self->arena_offset = end;
    self->size_bytes = end + plan->arena_size_bytes;
}

/* Lays out everything that a plan touches in one block of device memory. */
void
cadre_layout_init(cadre_layout_t *self, const cadre_plan_t *plan)
{
    *self = (cadre_layout_t){0};
    place_inputs(self, plan);
    collect_outputs(self, plan);
    place_outputs(self, plan);
}

/* Frees the lists of the layout. */
void
cadre_layout_fini(cadre_layout_t *self)
{
    free(self->arguments);
    free(self->variables);
    free(self->outputs);
    *self = (cadre_layout_t){0};
}

/* Returns the offset of the argument or variable of this number, which must be in the list. */
static size_t
input_offset(const cadre_layout_input_t *inputs, int count, int index)
{
    for (int i = 0; i < count; i++) {
        if (inputs[i].index == index) {
            return inputs[i].offset;
        }
    }
    cadre_assert(false);
    return 0;
}

/* Returns the offset in the block of a place of the plan. Constants are not in the block. */
size_t
cadre_layout_offset(const cadre_layout_t *self, cadre_plan_place_t place)
{
    switch (place.kind) {
    case CADRE_PLACE_ARGUMENT:
        return input_offset(self->arguments, self->argument_count, place.index);
    case CADRE_PLACE_VARIABLE:
        return input_offset(self->variables, self->variable_count, place.index);
    case CADRE_PLACE_ARENA:
        return self->arena_offset + place.offset;
    case CADRE_PLACE_GRADIENT:
    case CADRE_PLACE_RESULT:
        for (int i = 0; i < self->output_count; i++) {
            if (self->outputs[i].place.kind == place.kind &&
                self->outputs[i].place.index == place.index) {
                return self->outputs[i].offset;
            }
        }
        break;
    case CADRE_PLACE_CONSTANT:
    case CADRE_PLACE_NONE:
        break;
    }
    cadre_assert(false);
    return 0;
}
