/*
 * sim_script_variables - how the user program makes variables, resources beside them, drops them,
 * and changes their learning rates.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/sim/sim_call.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_resize.h"
#include "tests/sim/sim_script.h"
#include "tests/sim/sim_swarm.h"

/* With the largest gradient, SIM_STRENGTHS * SIM_WEIGHTS, a late update goes 0.9 of the way back to
 * what was pulled; beyond 1 values would swing further with each. */
static const double LAMBDA = 0.004;
static const double MOMENTUM = 0.5;

static cadre_core_t *
core_of(const sim_script_t *self)
{
    return &self->coordinator->core;
}

static uint64_t
draw(sim_script_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

static sim_definition_t
define(sim_script_t *self, bool is_big)
{
    static const cadre_dtype_t dtypes[] = {CADRE_F32, CADRE_F32, CADRE_F64, CADRE_I32, CADRE_I64};
    static const char *const optimizers[] = {"add", "sgd", "momentum"};
    sim_definition_t definition = {.dtype = is_big ? CADRE_F32 : dtypes[draw(self, 0, 4)],
                                   .rank = is_big ? 2 : (int)draw(self, 0, 2)};
    for (int i = 0; i < definition.rank; i++) {
        definition.shape[i] = is_big ? (i == 0 ? 1500 : 300) : (int64_t)draw(self, 1, 40);
    }
    if (definition.dtype == CADRE_F32 && draw(self, 0, 2) == 0) {
        definition.wire = CADRE_BF16;
    }
    uint64_t optimizer = definition.dtype == CADRE_F32 ? draw(self, 0, 2) : 0;
    if (core_of(self)->options.consistency == CADRE_SYNC) {
        optimizer = 0; /* the others apply a step's mean, which is no whole number */
    }
    definition.optimizer = optimizers[optimizer];
    if (optimizer > 0 && sim_swarm_has(self->check->seed, "delay compensation", 2)) {
        definition.delay_compensation = LAMBDA;
    } else if (optimizer == 2 && definition.rank > 0 &&
               sim_swarm_has(self->check->seed, "sparse gradients", 2)) {
        definition.momentum = MOMENTUM;
    }
    if (definition.rank > 0) {
        int64_t most = definition.shape[0] < 7 ? definition.shape[0] : 7;
        definition.partitions = is_big ? 2 : (int)draw(self, 0, (uint64_t)most);
    }
    return definition;
}

/* With a learning rate of 1 and no momentum a gradient is what is taken off the value; with one, it
 * is so at first. */
static cadre_optimizer_t
optimizer_of(const sim_definition_t *definition)
{
    cadre_optimizer_t optimizer;
    cadre_assert(cadre_optimizer_named(definition->optimizer, &optimizer) == 0);
    if (optimizer.kind != CADRE_OPTIMIZER_ADD) {
        optimizer.learning_rate = 1;
        optimizer.momentum = definition->momentum;
    }
    return optimizer;
}

/* One that a shard which is short of memory refuses. */
static sim_definition_t
define_too_large(void)
{
    return (sim_definition_t){.dtype = CADRE_F32,
                              .rank = 2,
                              .shape = {SIM_TOO_LARGE_SIZE / 1024, 256},
                              .optimizer = "add",
                              .partitions = 2,
                              .too_large = true};
}

/* Whether variable `number` is a table: not where what a shard may hold is counted to the byte. */
static bool
is_table(const sim_script_t *self, uint32_t number)
{
    char what[32];
    snprintf(what, sizeof(what), "table %u", number);
    if (number == 1 && sim_is_rotten(self->check->seed)) {
        return true;
    }
    return number > 0 && self->check->short_shard == SIM_NEVER &&
           (sim_swarm_has(self->check->seed, "tables", 2) || sim_is_resized(self->check->seed) ||
            sim_is_rotten(self->check->seed)) &&
           sim_swarm_has(self->check->seed, what, 2);
}

/* Lets rows of a table go, in two of three: those that are old, or small; in one of four there may
 * be too few for all keys, so that others go, or updates are refused: also where files are damaged,
 * and so read, more than elsewhere. */
static void
limit_rows(const sim_script_t *self, uint32_t number, sim_definition_t *table)
{
    static const double norms[] = {0, 0, 2.5, 6};
    static const cadre_table_policy_t policies[] = {CADRE_TABLE_EVICT_LRU, CADRE_TABLE_EVICT_LFU,
                                                    CADRE_TABLE_EVICT_LFU, CADRE_TABLE_REFUSE};
    char what[32];
    snprintf(what, sizeof(what), "rows of table %u", number);
    const uint64_t drawn = sim_swarm_draw(self->check->seed, what, 0, 9999);
    const uint32_t keys = SIM_KEYS / self->check->shard_count;
    table->age_max = drawn % 3 == 0 ? 1 + (uint32_t)(drawn / 3 % 12) : 0;
    table->norm_min = table->shape[0] <= SIM_ROW_MAX ? norms[drawn / 36 % 4] : 0;
    const bool is_restored = number == 1 && sim_is_rotten(self->check->seed);
    if ((drawn / 144 % 4 == 0 || is_restored) && !sim_is_resized(self->check->seed)) {
        table->when_full = policies[drawn / 576 % 4];
        table->rows_max = table->when_full == CADRE_TABLE_REFUSE ? keys - keys / 8 : 1 + keys / 2;
    }
}

static sim_definition_t
define_table(const sim_script_t *self, uint32_t number)
{
    char what[32];
    static const char *const optimizers[] = {"sgd", "momentum"};
    static const char *const initializers[] = {"zeros", "uniform"};
    snprintf(what, sizeof(what), "kind of table %u", number);
    const uint64_t drawn = sim_swarm_draw(self->check->seed, what, 0, 9999);
    const bool is_wide = sim_swarm_has(self->check->seed, "wide rows", 6);
    sim_definition_t definition = {
        .dtype = CADRE_F32,
        .wire = drawn % 5 == 0 ? CADRE_BF16 : 0,
        .rank = 1,
        .shape = {is_wide ? SIM_ROW_WIDE : (int64_t)(1 + drawn / 8 % SIM_ROW_MAX)},
        .optimizer = optimizers[drawn & 1],
        .is_table = true,
        .initializer = initializers[drawn >> 1 & 1]};
    limit_rows(self, number, &definition);
    return definition;
}

static sim_definition_t
define_next(sim_script_t *self, uint32_t number)
{
    char what[32];
    if (is_table(self, number)) {
        return define_table(self, number);
    }
    snprintf(what, sizeof(what), "too large %u", number);
    bool is_short = self->check->short_shard != SIM_NEVER && number > 0;
    return is_short && sim_swarm_has(self->check->seed, what, 3)
               ? define_too_large()
               : define(self, self->plan.big && number == 0);
}

/* Whether another one took its name, in an earlier life. */
static bool
was_succeeded(const sim_script_t *self, uint32_t number)
{
    const sim_variable_t *variables = self->check->variables;
    bool found = false;
    for (uint32_t i = number + 1; i < self->check->known_count; i++) {
        found = found || strcmp(variables[i].name, variables[number].name) == 0;
    }
    return found;
}

/* A program that goes on creates what its checkpoint holds, and of each name the last. */
static bool
is_left_out(const sim_script_t *self, uint32_t number)
{
    return number < self->check->known_count && was_succeeded(self, number) &&
           !(self->coordinator->resumed >> number & 1);
}

/* Whether variable `number` has this name and has not been dropped. */
static bool
has_name(const sim_script_t *self, uint32_t number, const char *name)
{
    const sim_variable_t *variable = &self->check->variables[number];
    bool is_dropped = self->check->left_out >> number & 1;
    return !is_dropped && !variable->given_up && strcmp(variable->name, name) == 0;
}

uint32_t
sim_script_predecessor(const sim_script_t *self)
{
    uint32_t number = self->check->variable_count;
    for (uint32_t i = 0; number < self->check->known_count && i < number; i++) {
        if (has_name(self, i, self->check->variables[number].name) && !is_left_out(self, number)) {
            return i;
        }
    }
    return SIM_NEVER;
}

/* A new variable takes the name of the one before, whose creation has failed, or of one that was
 * dropped, now and then. */
static void
name_variable(sim_script_t *self, uint32_t number, char name[16])
{
    const sim_variable_t *variables = self->check->variables;
    snprintf(name, 16, "v%u", number + 1);
    if (number < self->check->known_count) {
        snprintf(name, 16, "%s", variables[number].name);
    } else if (number > 0 && variables[number - 1].given_up &&
               sim_swarm_has(self->check->seed, "name again", 2)) {
        snprintf(name, 16, "%s", variables[number - 1].name);
    } else if (self->check->left_out && sim_chance(&self->drop_random, 7000)) {
        uint32_t from = (uint32_t)sim_between(&self->drop_random, 0, number - 1);
        bool is_free = self->check->left_out >> from & 1;
        for (uint32_t i = 0; i < number; i++) {
            is_free = is_free && !has_name(self, i, self->check->variables[from].name);
        }
        if (is_free) {
            snprintf(name, 16, "%s", self->check->variables[from].name);
        }
    }
    if (is_left_out(self, number)) {
        snprintf(name, 16, "x%u", number + 1);
    }
}

static cadre_variable_t *
add_table(sim_script_t *self, const sim_definition_t *definition, const char *name)
{
    const uint32_t number = core_of(self)->catalogue.variable_count;
    cadre_table_spec_t spec = cadre_table_spec((uint32_t)definition->shape[0]);
    const cadre_optimizer_t optimizer = optimizer_of(definition);
    cadre_variable_t *variable = NULL;
    spec.admit_after =
        sim_table_admit_after(self->check->seed, number, self->check->life_count - 1);
    spec.rows_max = definition->rows_max;
    spec.when_full = definition->rows_max > 0 ? definition->when_full : spec.when_full;
    spec.age_max = definition->age_max;
    spec.norm_min = definition->norm_min;
    if (cadre_initializer_spec_parse(&spec.initializer, definition->initializer) < 0 ||
        cadre_optimizer_spec_take(&spec.optimizer, &optimizer) < 0 ||
        cadre_catalogue_add_table(&core_of(self)->catalogue, name, &spec, definition->wire,
                                  &variable) < 0) {
        sim_check_fail(self->check, "table: %s", cadre_error_text());
    }
    return variable;
}

static cadre_variable_t *
add_variable(sim_script_t *self, sim_definition_t *definition)
{
    cadre_core_t *core = core_of(self);
    uint32_t number = core->catalogue.variable_count;
    *definition = number < self->check->known_count ? self->check->variables[number].definition
                                                    : define_next(self, number);
    cadre_tensor_t like = {.dtype = definition->dtype, .rank = definition->rank};
    memcpy(like.shape, definition->shape, sizeof(definition->shape));
    cadre_variable_options_t options = {.size = sizeof(options),
                                        .optimizer = optimizer_of(definition),
                                        .partitioner = CADRE_PARTITION_FIXED,
                                        .count =
                                            definition->partitions ? definition->partitions : 1,
                                        .wire = definition->wire,
                                        .delay_compensation = definition->delay_compensation};
    char name[16];
    name_variable(self, number, name);
    if (definition->is_table) {
        return add_table(self, definition, name);
    }
    cadre_variable_t *variable = NULL;
    if (cadre_catalogue_add_variable(&core->catalogue, name, &like, &options, &variable) < 0) {
        sim_check_fail(self->check, "variable: %s", cadre_error_text());
    }
    return variable;
}

void
sim_script_lay_out(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    cadre_core_init(core, &self->coordinator->options, self->network->now_ms);
    for (uint32_t i = 0; i < self->check->known_count; i++) {
        sim_definition_t definition;
        sim_variable_lay(&self->check->variables[i], add_variable(self, &definition));
    }
    cadre_core_fini(core);
}

/* One more resource, as long as there is room; the broken one comes last. */
static void
add_resource(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    char name[16];
    snprintf(name, sizeof(name), "r%u", core->catalogue.resource_count + 1);
    if (!self->plan.resources || core->catalogue.resource_count == SIM_RESOURCES_MAX) {
        return;
    }
    cadre_closure_t *call = cadre_closure_new((uint32_t)draw(self, 1, SIM_FUNCTIONS));
    cadre_resource_t *resource = NULL;
    call->variables = self->check->variable_count;
    if (cadre_catalogue_add_resource(&core->catalogue, name, &call, &resource) < 0) {
        sim_check_fail(self->check, "resource: %s", cadre_error_text());
    }
    cadre_resources_announce(&core->resources);
}

/* How many parts are left when the program gives the creation up, as it did in an earlier life;
 * SIM_NEVER: it does not. The first variable is always there. */
static size_t
draw_giving_up(sim_script_t *self, uint32_t number)
{
    bool is_known = number < self->check->known_count;
    bool gives_up = is_known
                        ? self->check->variables[number].given_up
                        : number > 0 && !sim_is_resized(self->check->seed) &&
                              sim_swarm_has(self->check->seed, "give up", 3) && !draw(self, 0, 2);
    return gives_up ? draw(self, 0, self->new_variable->partitions) : SIM_NEVER;
}

/* The creation has failed for the program, as when its time is over. */
static void
give_up_creation(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    self->check->variables[self->new_variable->id - 1].given_up = true;
    cadre_operations_give_up(&core->operations, &self->pending);
    cadre_core_forget_variable(core, self->new_variable);
}

/* Whether a variable made later has the name: a checkpoint that is resumed holds that one. */
static bool
is_renamed(const sim_script_t *self, const cadre_variable_t *variable)
{
    const sim_variable_t *variables = self->check->variables;
    return variable->id < self->check->known_count &&
           strcmp(variables[variable->id].name, variable->name) == 0;
}

/* It has failed where a part came to the shard that is short of memory. */
static void
end_too_large(sim_script_t *self)
{
    int status = self->pending.status;
    bool refused = sim_check_is_refused(self->check, self->new_variable->id - 1);
    bool other = status == CADRE_ESHAPE || status == CADRE_EDTYPE;
    bool good = status == (refused ? CADRE_EFULL : 0);
    if (!good && !(other && is_renamed(self, self->new_variable))) {
        sim_check_fail(self->check, "create: %s, which is%s too large: %s",
                       self->new_variable->name, refused ? "" : " not",
                       status < 0 ? self->pending.text : "it is there");
    }
    self->refused += refused;
    give_up_creation(self);
}

static void
end_creation(sim_script_t *self)
{
    if (self->pending.status < 0) {
        sim_check_fail(self->check, "create: %s", self->pending.text);
    }
    self->new_variable->created = true;
    cadre_announcements_add_variable(&core_of(self)->announcements, self->new_variable);
}

/* Its number is used up, so that those of later ones are what they were. */
static void
leave_out(sim_script_t *self)
{
    uint32_t number = self->check->variable_count++;
    self->check->variables[number].dropped = true;
    self->check->variables[number].was_dropped = true;
    self->check->left_out |= 1U << number;
    cadre_core_forget_variable(core_of(self), self->new_variable);
    self->new_variable = NULL;
    add_resource(self);
}

bool
sim_script_create(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    if (!self->asked) {
        sim_definition_t definition;
        uint32_t number = core->catalogue.variable_count;
        self->asked = true;
        self->new_variable = add_variable(self, &definition);
        if (is_left_out(self, number)) {
            sim_check_add_variable(self->check, self->new_variable, &definition);
            leave_out(self);
            return true;
        }
        self->give_up_at = definition.too_large ? SIM_NEVER : draw_giving_up(self, number);
        sim_check_add_variable(self->check, self->new_variable, &definition);
        core->catalogue.creating = 1;
        cadre_recovery_begin_creation(&core->recovery);
        self->pending = (cadre_operation_t){.pending = 0};
        cadre_operations_create(&core->operations, self->new_variable, &self->pending);
    }
    bool gives_up = self->give_up_at != SIM_NEVER && self->pending.pending <= self->give_up_at;
    if (self->pending.pending > 0 && !gives_up) {
        return false;
    }
    if (self->pending.status == CADRE_EIO && sim_cluster_has_room(self->cluster)) {
        self->gives_up =
            true; /* what the shard began with cannot be read: the program begins again */
        return false;
    }
    core->catalogue.creating = 0;
    if (self->pending.status == 0 && core->recovery.repairs.creation_status < 0) {
        self->pending.status = core->recovery.repairs.creation_status;
    }
    self->check->variable_count++;
    if (self->check->variables[self->new_variable->id - 1].definition.too_large) {
        end_too_large(self);
    } else if (gives_up) {
        give_up_creation(self);
    } else {
        end_creation(self);
    }
    add_resource(self);
    self->new_variable = NULL;
    return true;
}

bool
sim_script_drop(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    sim_variable_t *variable = &self->check->variables[self->variable];
    if (!variable->dropped) {
        variable->dropped = true;
        variable->was_dropped = true;
        variable->drop = cadre_core_drop_variable(core, core->catalogue.variables[self->variable]);
    }
    cadre_closure_queue_cut_short(&core->queue);
    if (core->drops.retired >= variable->drop) {
        self->check->left_out |= 1U << self->variable;
        return true;
    }
    bool gives_up = self->network->now_ms >= self->patience_ms;
    self->given_up += gives_up;
    return gives_up;
}

bool
sim_script_choose_rate(sim_script_t *self)
{
    const cadre_catalogue_t *catalogue = &core_of(self)->catalogue;
    const uint32_t usable = sim_check_usable(self->check);
    const uint32_t count = self->check->variable_count;
    const uint32_t from = (uint32_t)sim_between(&self->rate_random, 0, count - 1);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = (from + i) % count;
        const cadre_optimizer_spec_t *optimizer = &catalogue->variables[at]->optimizer;
        if ((usable >> at & 1) && optimizer->kind != CADRE_OPTIMIZER_ADD &&
            optimizer->schedule.boundary_count < CADRE_SCHEDULE_BOUNDARIES_MAX) {
            self->variable = at;
            return true;
        }
    }
    return false;
}

bool
sim_script_change_rate(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    cadre_variable_t *variable = core->catalogue.variables[self->variable];
    if (!self->asked) {
        const size_t changes = variable->optimizer.schedule.boundary_count;
        self->asked = true;
        self->pending = (cadre_operation_t){.pending = 0};
        if (cadre_catalogue_change_rate(variable, 1 + 100 * changes, 1) < 0) {
            sim_check_fail(self->check, "rate: %s", cadre_error_text());
        }
        cadre_operations_create(&core->operations, variable, &self->pending);
    }
    if (self->pending.pending > 0) {
        return false;
    }
    if (self->pending.status < 0) {
        sim_check_fail(self->check, "rate: %s", self->pending.text);
    }
    self->check->variables[self->variable].rates = variable->optimizer.schedule.boundary_count;
    return true;
}
