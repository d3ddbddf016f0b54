#include "worker/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/device_name.h"
#include "worker/device/device_module.h"
#include "worker/device/element.h"
#include "worker/device/module.h"
#include "worker/device/plan.h"

enum { PLANS_DEFAULT = 16 };

struct cadre_device {
    const cadre_device_functions_t *functions;
    void *device;
    char *excuse; /* or NULL */
};

/* A plan, and the program and shapes that it was made for. */
typedef struct {
    uint64_t program_hash;
    int64_t symbol_values[CADRE_SYMBOLS_MAX];
    uint64_t used_at; /* the slot's run count when this plan was last used */
    cadre_plan_t *plan;
    void *prepared; /* what the device has made of the plan */
} entry_t;

struct cadre_slot {
    const cadre_device_functions_t *functions;
    void *slot; /* the device's */
    cadre_slot_options_t options;
    entry_t *entries;
    int entry_count;
    uint64_t run_count;
    const cadre_slot_run_t *run; /* the run that was started and not waited for; NULL: none */
    const cadre_plan_t *plan;    /* the plan of that run */
};

/* Returns the status of a device's function, and takes over the device's error text of a
 * failure. */
static int
relay(const cadre_device_functions_t *functions, int status)
{
    return status < 0 ? cadre_fail(status, "%s", functions->error_text()) : 0;
}

/* ---- devices ---- */

/* Opens device number `index` of the kind whose functions these are. */
static int
open_functions(const cadre_device_functions_t *functions, const cadre_device_options_t *options,
               int index, cadre_device_t **out)
{
    if (options->threads < 1) {
        return cadre_fail(CADRE_EINVALID, "a device needs at least one thread, not %d",
                          options->threads);
    }
    cadre_device_request_t request = {
        .index = index, .threads = options->threads, .math = options->math ? options->math : "f32"};
    void *device = NULL;
    int status = relay(functions, functions->open(&request, &device));
    if (status < 0) {
        return status;
    }
    cadre_device_t *self = cadre_calloc(1, sizeof(*self));
    self->functions = functions;
    self->device = device;
    *out = self;
    return 0;
}

int
cadre_device_open_functions(const struct cadre_device_functions *functions,
                            const cadre_device_options_t *options, cadre_device_t **out)
{
    return open_functions(functions, options, 0, out);
}

/* Finds the functions of the CUDA module, or fails with a text that says why and what to do. Looks
 * for the driver before loading the module: a missing driver gives the better text, and cuBLAS
 * alone takes hundreds of megabytes. */
static int
find_cuda(char *const *folders, const cadre_device_functions_t **functions)
{
    const char *advice = "this build has no CUDA: build it where nvcc is (docs/gpu.md)";
    int status = cadre_module_find("cuda", folders, CADRE_MODULE_FOLDERS, NULL);
    if (status == 0) {
        advice = "install NVIDIA's driver; nvidia-smi shows whether it works";
        status = cadre_module_probe("libcuda.so.1", "NVIDIA driver");
    }
    if (status == 0) {
        advice = "CUDA's libraries must be where the linker looks, as in LD_LIBRARY_PATH";
        status = cadre_module_open("cuda", folders, CADRE_MODULE_FOLDERS, functions);
    }
    if (status == CADRE_ENOTFOUND || status == CADRE_EUNAVAILABLE) {
        cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
        cadre_fail(status, "%s; %s", reason, advice);
    }
    return status;
}

/* Finds the functions of the CUDA module in the folders of modules. */
static int
load_cuda(const cadre_device_functions_t **functions)
{
    char *folders[CADRE_MODULE_FOLDERS] = {0};
    int status = cadre_module_folders(folders);
    status = status < 0 ? status : find_cuda(folders, functions);
    for (int i = 0; i < CADRE_MODULE_FOLDERS; i++) {
        free(folders[i]);
    }
    return status;
}

/* Opens GPU number `index`. */
static int
open_cuda(const cadre_device_options_t *options, int index, cadre_device_t **out)
{
    const cadre_device_functions_t *functions = NULL;
    int status = load_cuda(&functions);
    status = status == 0 ? open_functions(functions, options, index, out) : status;
    return status < 0 ? cadre_fail_within(status, "cuda:%d", index) : 0;
}

/* Returns how many GPUs this process could open. A module that does not count them has one. */
int
cadre_device_gpu_count(void)
{
    const cadre_device_functions_t *functions = NULL;
    if (load_cuda(&functions) < 0 || !functions) {
        return 0;
    }
    return functions->count ? functions->count() : 1;
}

/* Opens the GPU whose turn it is (turns go round over all GPUs), or else the CPU with the reason as
 * its excuse. Where no module is installed there is no excuse: the build or the machine is meant
 * for the CPU. */
static int
open_auto(const cadre_device_options_t *options, int turn, cadre_device_t **out)
{
    int count = turn > 0 ? cadre_device_gpu_count() : 1;
    int status = open_cuda(options, count > 0 ? turn % count : 0, out);
    if (status == 0) {
        return 0;
    }
    cadre_auto(cadre_free) char *excuse =
        status == CADRE_ENOTFOUND ? NULL : cadre_strdup(cadre_error_text());
    status = open_functions(&cadre_cpu_functions, options, 0, out);
    if (status == 0) {
        (*out)->excuse = excuse;
        excuse = NULL;
    }
    return status;
}

/* Opens the device that `options->name` names: "cpu", a GPU by its number, or "auto". */
int
cadre_device_open_with(const cadre_device_options_t *options, cadre_device_t **out)
{
    int device = CADRE_DEVICE_CPU;
    int status = cadre_device_name_parse(options->name, &device);
    if (status < 0 || (options->math && (status = cadre_math_check(options->math)) < 0)) {
        return status;
    }
    if (device == CADRE_DEVICE_CPU) {
        return open_functions(&cadre_cpu_functions, options, 0, out);
    }
    /* The numbers from CADRE_DEVICE_AUTO down stand for "auto" with a turn: 0, 1, and so on. */
    if (device <= CADRE_DEVICE_AUTO) {
        return open_auto(options, CADRE_DEVICE_AUTO - device, out);
    }
    status = open_cuda(options, device, out);
    if (status < 0) {
        cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
        cadre_fail(status, "%s; or take the device cpu or auto", reason);
    }
    return status;
}

int
cadre_device_open(const char *name, int threads, cadre_device_t **out)
{
    cadre_device_options_t options = {.name = name, .threads = threads};
    return cadre_device_open_with(&options, out);
}

/* Closes the device; its slots must have been closed. */
void
cadre_device_close(cadre_device_t **self_p)
{
    cadre_device_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    self->functions->close(self->device);
    free(self->excuse);
    free(self);
}

const char *
cadre_device_name(const cadre_device_t *self)
{
    return self->functions->name(self->device);
}

const char *
cadre_device_excuse(const cadre_device_t *self)
{
    return self->excuse;
}

void *
cadre_device_memory_new(cadre_device_t *self, size_t size_bytes)
{
    return self->functions->memory_new(self->device, size_bytes);
}

void
cadre_device_memory_free(cadre_device_t *self, void *memory)
{
    self->functions->memory_free(self->device, memory);
}

/* Allocates memory of the device for values that stay there; CADRE_EUNAVAILABLE on a device
 * without. */
int
cadre_device_buffer_new(cadre_device_t *self, size_t size_bytes, void **out)
{
    if (!self->functions->buffer_new) {
        return cadre_fail(CADRE_EUNAVAILABLE, "%s keeps nothing", cadre_device_name(self));
    }
    return relay(self->functions, self->functions->buffer_new(self->device, size_bytes, out));
}

void
cadre_device_buffer_free(cadre_device_t *self, void *buffer)
{
    if (buffer) {
        self->functions->buffer_free(self->device, buffer);
    }
}

int
cadre_device_buffer_write(cadre_device_t *self, void *buffer, const void *from, size_t size_bytes)
{
    return relay(self->functions,
                 self->functions->buffer_write(self->device, buffer, from, size_bytes));
}

int
cadre_device_buffer_read(cadre_device_t *self, const void *buffer, void *to, size_t size_bytes)
{
    return relay(self->functions,
                 self->functions->buffer_read(self->device, buffer, to, size_bytes));
}

/* ---- slots ---- */

/* Opens a slot of a device, with room for `plans_max` prepared plans. */
int
cadre_slot_open(cadre_device_t *device, const cadre_slot_options_t *options, cadre_slot_t **out)
{
    cadre_slot_t *self = cadre_calloc(1, sizeof(*self));
    self->functions = device->functions;
    if (options) {
        self->options = *options;
    }
    if (self->options.plans_max < 1) {
        self->options.plans_max = PLANS_DEFAULT;
    }
    int status = relay(self->functions,
                       self->functions->slot_open(device->device, &self->options, &self->slot));
    if (status < 0) {
        free(self);
        return status;
    }
    self->entries = cadre_calloc((size_t)self->options.plans_max, sizeof(*self->entries));
    *out = self;
    return 0;
}

/* Frees a prepared plan; its place can then be used for another. */
static void
clear_entry(cadre_slot_t *self, entry_t *entry)
{
    if (entry->plan) {
        self->functions->release(self->slot, entry->prepared);
        cadre_plan_destroy(&entry->plan);
    }
    *entry = (entry_t){0};
}

/* Closes the slot with its plans; no run may be under way. */
void
cadre_slot_close(cadre_slot_t **self_p)
{
    cadre_slot_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (int i = 0; i < self->entry_count; i++) {
        clear_entry(self, &self->entries[i]);
    }
    self->functions->slot_close(self->slot);
    free(self->entries);
    free(self);
}

size_t
cadre_slot_arena_size_bytes(const cadre_slot_t *self)
{
    return self->functions->arena_size_bytes(self->slot);
}

/* Returns whether the device reads variables and writes gradients in this dtype; f32 it always
 * does. */
bool
cadre_slot_takes(const cadre_slot_t *self, cadre_dtype_t dtype)
{
    return dtype == CADRE_F32 || (self->functions->dtypes >> dtype & 1) != 0;
}

void *
cadre_slot_stream(cadre_slot_t *self)
{
    return self->functions->stream(self->slot);
}

/* Returns the prepared plan of the program with this hash, made for these numbers of its symbols
 * (sizes that the program leaves open); NULL when there is none. */
static entry_t *
find_entry(cadre_slot_t *self, uint64_t hash, const int64_t *symbol_values)
{
    for (int i = 0; i < self->entry_count; i++) {
        entry_t *entry = &self->entries[i];
        if (entry->plan && entry->program_hash == hash &&
            memcmp(entry->symbol_values, symbol_values, sizeof(entry->symbol_values)) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* Returns the place for one more plan: an unused one, or that of the plan unused for longest. */
static entry_t *
free_entry(cadre_slot_t *self)
{
    if (self->entry_count < self->options.plans_max) {
        return &self->entries[self->entry_count++];
    }
    entry_t *oldest = &self->entries[0];
    for (int i = 1; i < self->entry_count; i++) {
        if (self->entries[i].used_at < oldest->used_at) {
            oldest = &self->entries[i];
        }
    }
    clear_entry(self, oldest);
    return oldest;
}

/* Plans the program for these numbers of its symbols and has the device prepare the plan. The
 * checks of the slot turn off ways of planning, for tests. */
static int
make_entry(cadre_slot_t *self, const cadre_program_t *program, const int64_t *symbol_values,
           entry_t **out)
{
    cadre_auto(cadre_plan_destroy) cadre_plan_t *plan = NULL;
    unsigned flags = self->functions->plan_flags;
    flags &= self->options.checks.no_reuse ? ~(unsigned)CADRE_PLAN_REUSE : ~0U;
    flags &= self->options.checks.no_chains ? ~(unsigned)CADRE_PLAN_CHAINS : ~0U;
    flags &= self->options.checks.no_fusion ? ~(unsigned)CADRE_PLAN_FUSE : ~0U;
    int status = cadre_plan_new(program, symbol_values, flags, &plan);
    if (status < 0) {
        return cadre_fail_within(status, "%s", cadre_program_name(program));
    }
    entry_t *entry = free_entry(self); /* before prepare: frees memory that the new plan may need */
    void *prepared = NULL;
    status = relay(self->functions, self->functions->prepare(self->slot, plan, &prepared));
    if (status < 0) {
        return status;
    }
    *entry =
        (entry_t){.program_hash = cadre_program_hash(program), .plan = plan, .prepared = prepared};
    memcpy(entry->symbol_values, symbol_values, sizeof(entry->symbol_values));
    plan = NULL;
    *out = entry;
    return 0;
}

/* Gives the prepared plan for the run's program and the shapes of its arguments; makes it when
 * there is none yet. */
static int
find_plan(cadre_slot_t *self, const cadre_slot_run_t *run, entry_t **out)
{
    int64_t symbol_values[CADRE_SYMBOLS_MAX] = {0};
    int status = cadre_program_bind(run->program, run->arguments, run->argument_count,
                                    CADRE_REAL_DTYPE, symbol_values);
    if (status < 0) {
        return status;
    }
    int rows_symbol = cadre_program_rows_symbol(run->program);
    if (rows_symbol >= 0) {
        cadre_assert(run->rows > 0);
        symbol_values[rows_symbol] = run->rows;
    }
    self->run_count++;
    entry_t *entry = find_entry(self, cadre_program_hash(run->program), symbol_values);
    if (!entry) {
        status = make_entry(self, run->program, symbol_values, &entry);
        if (status < 0) {
            return status;
        }
    }
    entry->used_at = self->run_count;
    *out = entry;
    return 0;
}

/* ---- running ---- */

/* Fails with CADRE_EDTYPE unless the device takes a variable, which has `own` in the program, or
 * its gradient, as `dtype`. */
static int
check_dtype(const cadre_slot_t *self, const cadre_slot_run_t *run, cadre_dtype_t own,
            cadre_dtype_t dtype)
{
    if (dtype == own || (own == CADRE_F32 && cadre_slot_takes(self, dtype))) {
        return 0;
    }
    return cadre_fail(CADRE_EDTYPE, "%s: the device takes no variables or gradients of %s as %s",
                      cadre_program_name(run->program), cadre_dtype_text(own),
                      cadre_dtype_text(dtype));
}

/* Checks the dtypes in which the run has variables and gradients, as far as it says them. */
static int
check_dtypes(const cadre_slot_t *self, const cadre_slot_run_t *run)
{
    int status = 0;
    int variables = run->variable_dtypes ? cadre_program_variable_count(run->program) : 0;
    int pushes = run->gradient_dtypes ? cadre_program_push_count(run->program) : 0;
    for (int i = 0; i < variables && status == 0; i++) {
        cadre_dtype_t own = cadre_program_variable(run->program, i)->dtype;
        status = check_dtype(self, run, own, run->variable_dtypes[i]);
    }
    for (int i = 0; i < pushes && status == 0; i++) {
        int variable = cadre_program_push(run->program, i)->variable;
        cadre_dtype_t own = cadre_program_variable(run->program, variable)->dtype;
        status = check_dtype(self, run, own, run->gradient_dtypes[i]);
    }
    return status;
}

/* Frees the first `count` results of a run. */
static void
drop_results(const cadre_slot_run_t *run, int count)
{
    for (int i = 0; i < count; i++) {
        cadre_tensor_fini(&run->results[i]);
    }
}

/* Allocates the tensors of the results, in the shapes that the plan has computed. f32 is computed
 * in the device's number type, which is f64 in some tests. */
static int
make_results(const cadre_plan_t *plan, const cadre_slot_run_t *run)
{
    for (int i = 0; i < plan->result_count; i++) {
        const cadre_plan_value_t *value = &plan->values[plan->results[i]];
        cadre_dtype_t dtype = value->dtype == CADRE_F32 ? CADRE_REAL_DTYPE : value->dtype;
        int status = cadre_tensor_init(&run->results[i], dtype, value->shape, value->rank);
        if (status < 0) {
            drop_results(run, i);
            return status;
        }
    }
    return 0;
}

/* Ends a run that has failed on the device: drops its results, and names its program in the text.
 */
static int
fail(const cadre_slot_t *self, const cadre_slot_run_t *run, const cadre_plan_t *plan, int status)
{
    relay(self->functions, status);
    drop_results(run, plan->result_count);
    return cadre_fail_within(status, "%s", cadre_program_name(run->program));
}

/* Starts a run: checks it, finds or makes its plan, allocates its results, and hands it to the
 * device. cadre_slot_wait ends it. */
int
cadre_slot_start(cadre_slot_t *self, const cadre_slot_run_t *run)
{
    cadre_assert(!self->run);
    entry_t *entry = NULL;
    int status = check_dtypes(self, run);
    if (status < 0) {
        return status;
    }

    status = find_plan(self, run, &entry);
    if (status < 0) {
        return status;
    }
    status = make_results(entry->plan, run);
    if (status < 0) {
        return status;
    }

    status = self->functions->run(self->slot, entry->prepared, run);
    if (status < 0) {
        return fail(self, run, entry->plan, status);
    }
    self->run = run;
    self->plan = entry->plan;
    return 0;
}

/* Waits until the run that was started has ended; returns its status. */
int
cadre_slot_wait(cadre_slot_t *self)
{
    cadre_assert(self->run);
    const cadre_slot_run_t *run = self->run;
    self->run = NULL;
    int status = self->functions->wait(self->slot);
    return status < 0 ? fail(self, run, self->plan, status) : 0;
}

int
cadre_slot_run(cadre_slot_t *self, const cadre_slot_run_t *run)
{
    int status = cadre_slot_start(self, run);
    return status < 0 ? status : cadre_slot_wait(self);
}
