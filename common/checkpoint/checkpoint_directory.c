#include "common/checkpoint/checkpoint_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/disk.h"

static const char best_file[] = "best";            /* names the best checkpoint */
static const char best_draft_file[] = ".tmp-best"; /* written first, then renamed to "best" */

struct cadre_checkpoint_directory {
    char *path;
    int fd;
};

const char *
cadre_checkpoint_temporary_name(uint64_t id, unsigned n, char *text)
{
    snprintf(text, CADRE_CHECKPOINT_TEMPORARY_SIZE, ".tmp-ckpt-%08" PRIu64 "-%u", id, n);
    return text;
}

/* Gives the id in the name of a checkpoint. A name is ours only if printing that id gives the same
 * name again. */
bool
cadre_checkpoint_name_parse(const char *name, uint64_t *id)
{
    char again[CADRE_CHECKPOINT_NAME_SIZE];
    return sscanf(name, "ckpt-%" SCNu64, id) == 1 && *id <= INT64_MAX &&
           strcmp(cadre_checkpoint_name(*id, again), name) == 0;
}

/* Returns whether this is the name of a temporary directory of ours. */
static bool
is_temporary(const char *name)
{
    char again[CADRE_CHECKPOINT_TEMPORARY_SIZE];
    uint64_t id;
    unsigned n;
    return sscanf(name, ".tmp-ckpt-%" SCNu64 "-%u", &id, &n) == 2 &&
           strcmp(cadre_checkpoint_temporary_name(id, n, again), name) == 0;
}

/* Returns whether this is the name of a file that a checkpoint consists of. */
static bool
is_content(const char *name)
{
    char again[CADRE_CHECKPOINT_NAME_SIZE];
    uint32_t shard;
    return strcmp(name, CADRE_MANIFEST_FILE_NAME) == 0 ||
           (sscanf(name, "shard-%" SCNu32, &shard) == 1 &&
            strcmp(cadre_checkpoint_shard_name(shard, again), name) == 0);
}

/* Opens the directory of a job's checkpoints; creates it first if `create`. */
int
cadre_checkpoint_directory_open(const char *path, bool create, cadre_checkpoint_directory_t **out)
{
    int status = create ? cadre_disk_make_directory(path) : 0;
    if (status != 0) {
        return status;
    }

    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return cadre_disk_fail(errno, "cannot open %s", path);
    }

    cadre_checkpoint_directory_t *self = cadre_calloc(1, sizeof(*self));
    self->path = cadre_strdup(path);
    self->fd = fd;
    *out = self;
    return 0;
}

void
cadre_checkpoint_directory_destroy(cadre_checkpoint_directory_t **self_p)
{
    cadre_checkpoint_directory_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    close(self->fd);
    free(self->path);
    free(self);
}

const char *
cadre_checkpoint_directory_path(const cadre_checkpoint_directory_t *self)
{
    return self->path;
}

int
cadre_checkpoint_directory_fd(const cadre_checkpoint_directory_t *self)
{
    return self->fd;
}

/* Opens a subdirectory, but not through a symbolic link. */
int
cadre_checkpoint_directory_enter(const cadre_checkpoint_directory_t *self, const char *name,
                                 int *out)
{
    int fd = openat(self->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return cadre_disk_fail(errno, "cannot open %s/%s", self->path, name);
    }
    *out = fd;
    return 0;
}

/* Frees a list of names that NULL ends. */
static void
free_names(char ***names_p)
{
    for (char **name = *names_p; name && *name; name++) {
        free(*name);
    }
    free(*names_p);
    *names_p = NULL;
}

/* Gives the names in an open directory except "." and "..", ended by NULL. */
static int
read_names(int fd, const char *path, char ***out)
{
    /* Another descriptor, because closedir closes the one that it was given. */
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = again >= 0 ? fdopendir(again) : NULL;
    if (!stream) {
        int error = errno;
        cadre_disk_close(&again);
        return cadre_disk_fail(error, "cannot open %s", path);
    }

    cadre_auto(free_names) char **names = cadre_calloc(1, sizeof(*names));
    size_t count = 0;
    struct dirent *entry;
    int status = 0;
    /* readdir tells a failure from the end by errno only. */
    while (errno = 0, status == 0 && (entry = readdir(stream))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (count == CADRE_CHECKPOINT_ENTRIES_MAX) {
            status = cadre_fail(CADRE_ETOOLARGE, "%s holds more than %d names", path,
                                CADRE_CHECKPOINT_ENTRIES_MAX);
            break;
        }
        names = cadre_realloc(names, count + 2, sizeof(*names));
        names[count++] = cadre_strdup(entry->d_name);
        names[count] = NULL;
    }

    if (status == 0 && errno != 0) {
        status = cadre_disk_fail(errno, "cannot list %s", path);
    }

    closedir(stream);
    if (status < 0) {
        return status;
    }

    *out = names;
    names = NULL;
    return 0;
}

/* Checks that a directory holds only files that a checkpoint consists of. CADRE_EREFUSED otherwise:
 * whoever put something else there must not lose it. */
static int
check_ours(int fd, const char *path, char **names)
{
    for (char **name = names; *name; name++) {
        struct stat about;
        if (fstatat(fd, *name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
            return cadre_disk_fail(errno, "cannot look at %s/%s", path, *name);
        }
        if (!is_content(*name) || !S_ISREG(about.st_mode)) {
            return cadre_fail(CADRE_EREFUSED, "%s/%s is not ours: the directory is left alone",
                              path, *name);
        }
    }

    return 0;
}

/* Removes a subdirectory with its files, after all of them were found to be a checkpoint's. */
int
cadre_checkpoint_directory_remove(cadre_checkpoint_directory_t *self, const char *name)
{
    cadre_auto(cadre_disk_close) int fd = -1;
    int status = cadre_checkpoint_directory_enter(self, name, &fd);
    if (status != 0) {
        return status;
    }

    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->path, name);
    cadre_auto(free_names) char **names = NULL;
    status = read_names(fd, path, &names);
    if (status != 0) {
        return status;
    }

    status = check_ours(fd, path, names);
    if (status != 0) {
        return status;
    }

    for (char **content = names; *content; content++) {
        if (unlinkat(fd, *content, 0) != 0) {
            return cadre_disk_fail(errno, "cannot remove %s/%s", path, *content);
        }
    }

    if (unlinkat(self->fd, name, AT_REMOVEDIR) != 0) {
        return cadre_disk_fail(errno, "cannot remove %s", path);
    }

    return 0;
}

/* Checks that the shards' files exist with the sizes that the manifest says. */
static int
check_sizes(int fd, const char *path, const cadre_manifest_t *manifest)
{
    for (size_t k = 0; k < manifest->shard_count; k++) {
        const cadre_manifest_shard_t *shard = &manifest->shards[k];
        struct stat about;
        if (fstatat(fd, shard->file, &about, AT_SYMLINK_NOFOLLOW) != 0) {
            return cadre_disk_fail(errno, "cannot look at %s/%s", path, shard->file);
        }
        if (!S_ISREG(about.st_mode) || (uint64_t)about.st_size != shard->size_bytes) {
            return cadre_fail(CADRE_ECORRUPT, "%s/%s is no file of %llu bytes", path, shard->file,
                              (unsigned long long)shard->size_bytes);
        }
    }

    return 0;
}

/* Checks that the manifest is of the checkpoint that its directory's name says. */
static int
check_id(const char *path, uint64_t id, const cadre_manifest_t *manifest)
{
    return manifest->id == id ? 0
                              : cadre_fail(CADRE_ECORRUPT, "%s holds checkpoint %llu", path,
                                           (unsigned long long)manifest->id);
}

/* Checks checkpoint entry->id without reading its shard files, and fills the entry from its
 * manifest; fails if it is not valid. */
static int
look_at(const cadre_checkpoint_directory_t *self, cadre_checkpoint_entry_t *entry)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_disk_close) int fd = -1;
    int status =
        cadre_checkpoint_directory_enter(self, cadre_checkpoint_name(entry->id, name), &fd);
    if (status != 0) {
        return status;
    }

    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->path, name);
    cadre_auto(cadre_manifest_fini) cadre_manifest_t manifest = {0};
    status = cadre_manifest_read(fd, path, &manifest);
    if (status != 0) {
        return status;
    }

    status = check_id(path, entry->id, &manifest);
    if (status != 0) {
        return status;
    }

    status = check_sizes(fd, path, &manifest);
    if (status != 0) {
        return status;
    }

    entry->cut = manifest.cut;
    entry->since = manifest.since;
    entry->created = cadre_strdup(manifest.created);
    entry->shard_count = manifest.shard_count;
    for (size_t k = 0; k < manifest.shard_count; k++) {
        entry->size_bytes += manifest.shards[k].size_bytes;
    }

    return 0;
}

/* Orders entries by falling id, for qsort. */
static int
newer_first(const void *left, const void *right)
{
    uint64_t a = ((const cadre_checkpoint_entry_t *)left)->id;
    uint64_t b = ((const cadre_checkpoint_entry_t *)right)->id;
    return (a < b) - (a > b);
}

/* Returns the place of checkpoint `id` behind place `from` of entries that are sorted, newest
 * first; `count` when it is not there. */
static size_t
find_entry(const cadre_checkpoint_entry_t *entries, size_t count, size_t from, uint64_t id)
{
    size_t at = from + 1;
    while (at < count && entries[at].id > id) {
        at++;
    }
    return at < count && entries[at].id == id ? at : count;
}

/* Marks as not valid what leaves pages to a checkpoint that is not there, or not valid; the oldest
 * first. */
static void
check_chains(cadre_checkpoint_entry_t *entries, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        cadre_checkpoint_entry_t *entry = &entries[i];
        if (!entry->valid || entry->since == 0) {
            continue;
        }
        const size_t base = find_entry(entries, count, i, entry->since);
        if (base == count || !entries[base].valid) {
            char name[CADRE_CHECKPOINT_NAME_SIZE];
            entry->valid = false;
            entry->reason = cadre_asprintf("it needs %s, which is %s",
                                           cadre_checkpoint_name(entry->since, name),
                                           base == count ? "not there" : "damaged");
        }
    }
}

/* Lists the checkpoints in the directory, newest first; those that are not valid have the reason.
 * */
int
cadre_checkpoint_directory_list(cadre_checkpoint_directory_t *self,
                                cadre_checkpoint_entry_t **entries, size_t *count)
{
    cadre_auto(free_names) char **names = NULL;
    int status = read_names(self->fd, self->path, &names);
    if (status != 0) {
        return status;
    }

    size_t name_count = 0;
    while (names[name_count]) {
        name_count++;
    }

    uint64_t best = 0;
    bool has_best = cadre_checkpoint_directory_best(self, &best) == 0;
    cadre_checkpoint_entry_t *found = cadre_calloc(name_count, sizeof(*found));
    size_t found_count = 0;
    for (char **name = names; *name; name++) {
        cadre_checkpoint_entry_t *entry = &found[found_count];
        if (!cadre_checkpoint_name_parse(*name, &entry->id)) {
            continue;
        }
        entry->valid = look_at(self, entry) == 0;
        entry->reason = entry->valid ? NULL : cadre_strdup(cadre_error_text());
        entry->is_best = has_best && entry->id == best;
        found_count++;
    }

    qsort(found, found_count, sizeof(*found), newer_first);
    check_chains(found, found_count);
    *entries = found;
    *count = found_count;
    return 0;
}

void
cadre_checkpoint_entries_free(cadre_checkpoint_entry_t **entries_p, size_t count)
{
    for (size_t i = 0; *entries_p && i < count; i++) {
        free((*entries_p)[i].reason);
        free((*entries_p)[i].created);
    }
    free(*entries_p);
    *entries_p = NULL;
}

/* Opens a reader of checkpoint `id`, and checks that its manifest is of that id. */
static int
open_reader(cadre_checkpoint_directory_t *self, uint64_t id, cadre_checkpoint_reader_t **out)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s", self->path, cadre_checkpoint_name(id, name));
    int fd = -1;
    int status = cadre_checkpoint_directory_enter(self, name, &fd);
    if (status != 0) {
        return status;
    }

    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    status = cadre_checkpoint_reader_open_in(&fd, path, &reader);
    if (status != 0) {
        return status;
    }

    status = check_id(path, id, cadre_checkpoint_reader_manifest(reader));
    if (status != 0) {
        return status;
    }

    *out = reader;
    reader = NULL;
    return 0;
}

int
cadre_checkpoint_directory_verify(cadre_checkpoint_directory_t *self, uint64_t id)
{
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    int status = open_reader(self, id, &reader);
    return status == 0 ? cadre_checkpoint_reader_contents(reader, NULL, NULL) : status;
}

/* Checks size, hash and pages of every shard file of a checkpoint, but not its records. */
static int
verify_files(cadre_checkpoint_directory_t *self, uint64_t id)
{
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    int status = open_reader(self, id, &reader);
    return status == 0 ? cadre_checkpoint_reader_verify_files(reader) : status;
}

/* Gives the newest checkpoint whose files verify, and reports each newer one to `damaged` (may be
 * NULL). Files are read only until one verifies. */
int
cadre_checkpoint_directory_newest(cadre_checkpoint_directory_t *self,
                                  void (*damaged)(void *context, uint64_t id, const char *reason),
                                  void *context, uint64_t *id)
{
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    int status = cadre_checkpoint_directory_list(self, &entries, &count);
    if (status != 0) {
        return status;
    }

    status = CADRE_ENOTFOUND;
    for (size_t i = 0; status != 0 && i < count; i++) {
        const char *reason = entries[i].reason;
        if (entries[i].valid) {
            status = verify_files(self, entries[i].id);
            reason = cadre_error_text();
        }
        if (status == 0) {
            *id = entries[i].id;
        } else if (damaged) {
            damaged(context, entries[i].id, reason);
        }
    }

    cadre_checkpoint_entries_free(&entries, count);
    return status == 0 ? 0
                       : cadre_fail(CADRE_ENOTFOUND, "%s holds no valid checkpoint", self->path);
}

/* Makes an empty temporary directory, which a checkpoint is renamed over. A rename that refuses to
 * replace anything (RENAME_NOREPLACE) is EINVAL on NFS and other file systems, and a plain rename
 * could replace a directory that another process has just made. */
static int
make_room(const cadre_checkpoint_directory_t *self, uint64_t id, char *temporary)
{
    for (unsigned n = 0; n < CADRE_CHECKPOINT_TEMPORARIES_MAX; n++) {
        cadre_checkpoint_temporary_name(id, n, temporary);
        if (mkdirat(self->fd, temporary, 0777) == 0) {
            return 0;
        }
        if (errno != EEXIST) {
            return cadre_disk_fail(errno, "cannot create %s/%s", self->path, temporary);
        }
    }

    return cadre_fail(CADRE_EEXISTS, "%s/%s: too many temporaries", self->path, temporary);
}

/* Deletes a checkpoint: one rename takes it away as a whole, then its files are removed. */
static int
retire(cadre_checkpoint_directory_t *self, uint64_t id)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    char temporary[CADRE_CHECKPOINT_TEMPORARY_SIZE];

    cadre_checkpoint_name(id, name);
    cadre_auto(cadre_disk_close) int fd = -1;
    int status = cadre_checkpoint_directory_enter(self, name, &fd);
    if (status != 0) {
        return status;
    }

    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->path, name);
    cadre_auto(free_names) char **names = NULL;
    status = read_names(fd, path, &names);
    if (status != 0) {
        return status;
    }

    status = check_ours(fd, path, names);
    if (status != 0) {
        return status;
    }

    status = make_room(self, id, temporary);
    if (status != 0) {
        return status;
    }

    if (renameat(self->fd, name, self->fd, temporary) != 0) {
        int error = errno;
        unlinkat(self->fd, temporary, AT_REMOVEDIR);
        return cadre_disk_fail(error, "cannot rename %s", path);
    }

    return cadre_checkpoint_directory_remove(self, temporary);
}

/* Tells of each entry whether it is kept: the newest `keep` valid ones and what is newer than
 * these, the best one, those with an id from `oldest` on, and what one that is kept leaves pages
 * to. */
static void
choose_kept(const cadre_checkpoint_entry_t *entries, size_t count, size_t keep, uint64_t oldest,
            bool *kept)
{
    size_t valid = 0;
    for (size_t i = 0; i < count; i++) {
        kept[i] = kept[i] || valid < keep || entries[i].id >= oldest || entries[i].is_best;
        /* A damaged checkpoint does not count among those that are kept. */
        valid += entries[i].valid ? 1 : 0;
        if (kept[i] && entries[i].valid && entries[i].since > 0) {
            kept[find_entry(entries, count, i, entries[i].since)] = true;
        }
    }
}

/* Removes the entries that are not kept (choose_kept). Goes on after an entry that cannot be
 * removed, and returns the first failure. */
static int
retire_older(cadre_checkpoint_directory_t *self, const cadre_checkpoint_entry_t *entries,
             size_t count, size_t keep, uint64_t oldest, size_t *removed)
{
    int first_failure = 0;
    char *text = NULL;
    cadre_auto(cadre_free) bool *kept = cadre_calloc(count, sizeof(*kept));
    choose_kept(entries, count, keep, oldest, kept);

    for (size_t i = 0; i < count; i++) {
        if (kept[i]) {
            continue;
        }

        int status = retire(self, entries[i].id);
        if (status == 0) {
            (*removed)++;
        } else if (first_failure == 0) {
            first_failure = status;
            text = cadre_strdup(cadre_error_text());
        }
    }

    if (first_failure != 0) {
        cadre_fail(first_failure, "%s", text);
        free(text);
    }

    return first_failure;
}

/* Keeps the newest `keep` valid checkpoints, the best one and those from `oldest` on, and removes
 * the others. */
int
cadre_checkpoint_directory_retain(cadre_checkpoint_directory_t *self, size_t keep, uint64_t oldest,
                                  size_t *removed)
{
    cadre_assert(keep > 0);
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    int status = cadre_checkpoint_directory_list(self, &entries, &count);
    if (status != 0) {
        return status;
    }

    size_t removed_count = 0;
    /* The names of the checkpoints that are kept must be on disk before older ones are deleted. */
    status = count > keep ? cadre_disk_sync_directory(self->fd, self->path) : 0;
    if (status == 0) {
        status = retire_older(self, entries, count, keep, oldest, &removed_count);
    }

    cadre_checkpoint_entries_free(&entries, count);
    if (removed) {
        *removed = removed_count;
    }

    return status;
}

/* Gives the checkpoint that is marked as the best: the one that the file "best" names, if it
 * exists. */
int
cadre_checkpoint_directory_best(cadre_checkpoint_directory_t *self, uint64_t *id)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->path, best_file);
    cadre_auto(cadre_free) char *text = NULL;
    size_t size_bytes = 0;
    int status =
        cadre_disk_read(self->fd, best_file, path, CADRE_CHECKPOINT_NAME_SIZE, &text, &size_bytes);
    if (status != 0) {
        return status;
    }

    uint64_t best = 0;
    text[strcspn(text, "\n")] = '\0';
    if (!cadre_checkpoint_name_parse(text, &best)) {
        return cadre_fail(CADRE_ECORRUPT, "%s names no checkpoint", path);
    }

    struct stat about;
    if (fstatat(self->fd, text, &about, AT_SYMLINK_NOFOLLOW) != 0) {
        return cadre_disk_fail(errno, "%s names %s", path, text);
    }

    *id = best;
    return 0;
}

/* Marks a checkpoint as the best: writes a new file with its name, and renames that over the old
 * one, so that a crash leaves one of the two. */
int
cadre_checkpoint_directory_mark_best(cadre_checkpoint_directory_t *self, uint64_t id)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->path, best_file);
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_disk_close) int fd = -1;
    int status = cadre_checkpoint_directory_enter(self, cadre_checkpoint_name(id, name), &fd);
    if (status != 0) {
        return status;
    }

    cadre_auto(cadre_free) char *line = cadre_asprintf("%s\n", name);
    unlinkat(self->fd, best_draft_file, 0); /* left by a process that crashed in this function */
    status = cadre_disk_create(self->fd, best_draft_file, path, line, strlen(line));
    if (status != 0) {
        return status;
    }

    if (renameat(self->fd, best_draft_file, self->fd, best_file) != 0) {
        int error = errno;
        unlinkat(self->fd, best_draft_file, 0);
        return cadre_disk_fail(error, "cannot write %s", path);
    }

    return cadre_disk_sync_directory(self->fd, self->path);
}

/* Removes all temporary directories. Goes on after one that cannot be removed, and returns the
 * first failure. */
int
cadre_checkpoint_directory_clean(cadre_checkpoint_directory_t *self, size_t *removed)
{
    cadre_auto(free_names) char **names = NULL;
    int status = read_names(self->fd, self->path, &names);
    size_t removed_count = 0;
    cadre_auto(cadre_free) char *text = NULL;

    for (char **name = names; name && *name; name++) {
        if (!is_temporary(*name)) {
            continue;
        }
        int one = cadre_checkpoint_directory_remove(self, *name);
        removed_count += one == 0 ? 1 : 0;
        if (one != 0 && status == 0) {
            status = one;
            text = cadre_strdup(cadre_error_text());
        }
    }

    if (removed) {
        *removed = removed_count;
    }

    return text ? cadre_fail(status, "%s", text) : status;
}
