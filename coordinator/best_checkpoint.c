#include "coordinator/best_checkpoint.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"

/* Finds the id of the checkpoint with which the job began. Fails with CADRE_ESTATE when it began
 * with none, or with one outside its own directory. */
static int
find_resumed(const cadre_coordinator_t *self, uint64_t *id)
{
    size_t length = strlen(self->checkpoint_dir);
    const char *path = self->resumed_path;
    bool is_ours = path && strncmp(path, self->checkpoint_dir, length) == 0 &&
                   path[length] == '/' && cadre_checkpoint_name_parse(path + length + 1, id);
    return is_ours
               ? 0
               : cadre_fail(CADRE_ESTATE, "no checkpoint of %s was resumed", self->checkpoint_dir);
}

/* Marks checkpoint `id`, 0 for the one that was resumed, as the best of the job's directory. */
int
cadre_best_checkpoint_mark(const cadre_coordinator_t *self, uint64_t id)
{
    if (!self->checkpoint_dir) {
        return cadre_fail(CADRE_ESTATE, "this job has no checkpoint directory");
    }

    int status = id == 0 ? find_resumed(self, &id) : 0;
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    status = cadre_checkpoint_directory_open(self->checkpoint_dir, false, &directory);
    if (status < 0) {
        return status;
    }

    return cadre_checkpoint_directory_mark_best(directory, id);
}

/* Returns the path of the best checkpoint, which the caller frees; NULL when none is marked or the
 * directory cannot be read. */
char *
cadre_best_checkpoint_path(const cadre_coordinator_t *self)
{
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    uint64_t id = 0;
    if (!self->checkpoint_dir ||
        cadre_checkpoint_directory_open(self->checkpoint_dir, false, &directory) < 0 ||
        cadre_checkpoint_directory_best(directory, &id) < 0) {
        return NULL;
    }

    char name[CADRE_CHECKPOINT_NAME_SIZE];
    return cadre_asprintf("%s/%s", self->checkpoint_dir, cadre_checkpoint_name(id, name));
}
