#include "coordinator/checkpoint_files.h"

#include <inttypes.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/spec/optimizer_spec.h"

static int
check_directory(const cadre_coordinator_t *self)
{
    return self->checkpoint_dir ? 0
                                : cadre_fail(CADRE_ESTATE, "this job has no checkpoint directory");
}

char *
cadre_checkpoint_files_path(const cadre_coordinator_t *self, uint64_t id)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    return cadre_asprintf("%s/%s", self->checkpoint_dir, cadre_checkpoint_name(id, name));
}

/* Returns the entry of a directory as the public struct, with copies of its texts. */
static cadre_checkpoint_info_t
info_of(const cadre_coordinator_t *self, const cadre_checkpoint_entry_t *entry)
{
    return (cadre_checkpoint_info_t){.id = entry->id,
                                     .path = cadre_checkpoint_files_path(self, entry->id),
                                     .is_valid = entry->valid,
                                     .is_best = entry->is_best,
                                     .reason = entry->reason ? cadre_strdup(entry->reason) : NULL,
                                     .cut = entry->cut,
                                     .created =
                                         entry->created ? cadre_strdup(entry->created) : NULL,
                                     .shard_count = entry->shard_count,
                                     .size_bytes = entry->size_bytes};
}

/* Lists the checkpoints of the job's directory, the newest first; either of `infos` and `count` may
 * be NULL. */
int
cadre_checkpoint_files_list(const cadre_coordinator_t *self, cadre_checkpoint_info_t **infos,
                            size_t *count)
{
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    cadre_checkpoint_entry_t *entries = NULL;
    size_t found = 0;
    int status = check_directory(self);
    if (status < 0) {
        return status;
    }
    status = cadre_checkpoint_directory_open(self->checkpoint_dir, false, &directory);
    if (status < 0) {
        return status;
    }
    status = cadre_checkpoint_directory_list(directory, &entries, &found);
    if (status < 0) {
        return status;
    }

    if (infos) {
        *infos = found > 0 ? cadre_calloc(found, sizeof(**infos)) : NULL;
        for (size_t i = 0; i < found; i++) {
            (*infos)[i] = info_of(self, &entries[i]);
        }
    }
    if (count) {
        *count = found;
    }
    cadre_checkpoint_entries_free(&entries, found);
    return 0;
}

/* Opens the manifest of a checkpoint, and none of its other files yet. */
static int
open_manifest(const cadre_coordinator_t *self, uint64_t id, cadre_checkpoint_reader_t **out)
{
    int status = check_directory(self);
    if (status < 0) {
        return status;
    }
    cadre_auto(cadre_free) char *path = cadre_checkpoint_files_path(self, id);
    return cadre_checkpoint_reader_open(path, out);
}

/* Opens a checkpoint with all of its files, and verifies these. */
int
cadre_checkpoint_files_open(const cadre_coordinator_t *self, uint64_t id,
                            cadre_checkpoint_reader_t **out)
{
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    int status = open_manifest(self, id, &reader);
    if (status < 0) {
        return status;
    }
    status = cadre_checkpoint_reader_verify_files(reader);
    if (status < 0) {
        return status;
    }

    *out = reader;
    reader = NULL;
    return 0;
}

int
cadre_checkpoint_files_like(const cadre_checkpoint_reader_t *reader, const char *variable,
                            cadre_tensor_t *like)
{
    const cadre_manifest_t *manifest = cadre_checkpoint_reader_manifest(reader);
    const cadre_manifest_variable_t *stored = cadre_manifest_find(manifest, variable);
    if (!stored) {
        return cadre_fail(CADRE_ENOTFOUND, "checkpoint %" PRIu64 " has no variable called %s",
                          manifest->id, variable);
    }
    *like = cadre_tensor_view(stored->dtype, NULL, stored->shape, stored->rank);
    return 0;
}

/* Returns the optimizer of a stored variable, as far as it says which slots there are. */
static cadre_optimizer_spec_t
optimizer_of(const cadre_manifest_variable_t *variable)
{
    cadre_optimizer_spec_t spec = {0};
    const char *kind = json_string_value(json_object_get(variable->optimizer, "kind"));
    if (cadre_optimizer_spec_parse(&spec, kind ? kind : "") < 0) {
        cadre_optimizer_spec_parse(&spec, cadre_optimizer_kind_text(CADRE_OPTIMIZER_ADD));
    }

    const char *name;
    json_t *number;
    json_object_foreach(json_object_get(variable->optimizer, "parameters"), name, number)
    {
        cadre_optimizer_spec_set(&spec, name, json_number_value(number));
    }
    spec.average_momentum =
        json_number_value(json_object_get(variable->optimizer, "average_momentum"));
    return spec;
}

/* Fails because a checkpoint has no slot of this name of a variable, and names those it has. */
static int
fail_unknown_slot(const cadre_manifest_t *manifest, const char *variable, const char *slot)
{
    char names[CADRE_TEXT_SIZE_MAX];
    const cadre_optimizer_spec_t spec = optimizer_of(cadre_manifest_find(manifest, variable));
    cadre_optimizer_slot_names(&spec, names, sizeof(names));
    return cadre_fail(CADRE_ENOTFOUND,
                      "variable %s of checkpoint %" PRIu64 " has no slot %s, it has %s", variable,
                      manifest->id, slot, names);
}

/* Reads the values of a variable (`slot` NULL), or a slot of its optimizer, into `value`. */
static int
read_kind(cadre_checkpoint_reader_t *reader, const char *variable, const char *slot,
          cadre_tensor_t *value)
{
    cadre_tensor_t like;
    int status = cadre_checkpoint_files_like(reader, variable, &like);
    if (status < 0) {
        return status;
    }
    const cadre_manifest_t *manifest = cadre_checkpoint_reader_manifest(reader);
    if (cadre_manifest_find(manifest, variable)->table) {
        return cadre_fail(CADRE_EINVALID,
                          "variable %s of checkpoint %" PRIu64 " is a table, whose rows are found "
                          "by key: `cadre checkpoint export` writes all of them, "
                          "cadre_checkpoint_restore_values puts them back into a running job, "
                          "where cadre_variable_read_keys reads them",
                          variable, manifest->id);
    }
    status = cadre_tensor_init(value, like.dtype, like.shape, like.rank);
    if (status < 0) {
        return status;
    }

    const cadre_checkpoint_range_t range = {.variable = variable,
                                            .kind = slot ? slot : CADRE_CHECKPOINT_KIND_VALUE,
                                            .dtype = like.dtype,
                                            .count = cadre_tensor_count(value)};
    status = cadre_checkpoint_reader_read(reader, &range, value->data, NULL);
    return status == CADRE_ENOTFOUND && slot ? fail_unknown_slot(manifest, variable, slot) : status;
}

int
cadre_checkpoint_files_values(cadre_checkpoint_reader_t *reader, const char *variable,
                              cadre_tensor_t *value)
{
    return read_kind(reader, variable, NULL, value);
}

/* Reads one variable of a checkpoint into `value`: its values (`slot` NULL), or a slot of its
 * optimizer. Only the files that hold it are opened. */
int
cadre_checkpoint_files_read(const cadre_coordinator_t *self, uint64_t id, const char *variable,
                            const char *slot, cadre_tensor_t *value)
{
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    int status = open_manifest(self, id, &reader);
    if (status < 0) {
        return status;
    }
    return read_kind(reader, variable, slot, value);
}
