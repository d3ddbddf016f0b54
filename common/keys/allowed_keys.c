#include "common/keys/allowed_keys.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/keys/certificate_file.h"
#include "common/system/trusted.h"

typedef struct {
    cadre_certificate_t certificate;
    char *path;
} item_t;

/* A list of keys, sorted by public key. Zeroed memory is an empty one. */
typedef struct {
    item_t *items;
    size_t count;
    size_t capacity;
} items_t;

enum { TRIES = 3 }; /* how often a directory that changes while it is read is read again */

struct cadre_allowed_keys {
    char *directory;
    items_t keys;
    uint64_t fingerprint; /* fingerprint of the directory when it was last read */
    bool has_failed;      /* the last read failed, so the files' contents are not known */
    bool is_missing;      /* the directory did not exist at the last read */
};

static void
items_fini(items_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->items[i].path);
    }
    free(self->items);
    *self = (items_t){0};
}

static void
close_directory(DIR **directory_p)
{
    if (*directory_p) {
        closedir(*directory_p);
    }
}

/* Fails with the status of an errno. CADRE_EIO means that the file may exist and be good all the
 * same. */
static int
fail_system(const char *path, int error)
{
    char reason[256];
    int status = CADRE_EIO;
    if (error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG) {
        status = CADRE_ENOTFOUND;
    } else if (error == EACCES || error == EPERM) {
        status = CADRE_EREFUSED;
    }
    return cadre_fail(status, "%s: %s", path, strerror_r(error, reason, sizeof(reason)));
}

/* Returns the next name that does not begin with "."; NULL at the end (errno is 0) or on failure
 * (errno says why). */
static const char *
next_name(DIR *directory)
{
    const struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(directory);
    } while (entry && entry->d_name[0] == '.');
    return entry ? entry->d_name : NULL;
}

/* The properties of a file that its fingerprint is a hash of; without padding. */
typedef struct {
    uint64_t device, inode, size, mode, user;
    uint64_t modified_s, modified_ns, changed_s, changed_ns;
} file_facts_t;

/* Returns the fingerprint of a file: a hash of its name and of what stat says of it, so that it
 * changes when the file is changed or replaced. */
static uint64_t
file_fingerprint(DIR *directory, const char *name)
{
    struct stat about;
    file_facts_t facts = {0};
    if (fstatat(dirfd(directory), name, &about, 0) == 0) {
        facts = (file_facts_t){
            .device = about.st_dev,
            .inode = about.st_ino,
            .size = (uint64_t)about.st_size,
            .mode = about.st_mode,
            .user = about.st_uid,
            .modified_s = (uint64_t)about.st_mtim.tv_sec,
            .modified_ns = (uint64_t)about.st_mtim.tv_nsec,
            .changed_s = (uint64_t)about.st_ctim.tv_sec,
            .changed_ns = (uint64_t)about.st_ctim.tv_nsec,
        };
    }

    return XXH3_64bits_withSeed(&facts, sizeof(facts), XXH3_64bits(name, strlen(name)));
}

/* Returns the fingerprint of a folder's owner and mode. Not of its times, which change with names
 * that are skipped. */
static uint64_t
folder_fingerprint(DIR *directory)
{
    struct stat about;
    file_facts_t facts = {0};
    if (fstat(dirfd(directory), &about) == 0) {
        facts = (file_facts_t){.mode = about.st_mode, .user = about.st_uid};
    }
    return XXH3_64bits(&facts, sizeof(facts));
}

/* Returns the fingerprint of the directory, of the names in it and of their stat, whatever their
 * order; 0 if there is no directory. */
static uint64_t
fingerprint(const char *path)
{
    cadre_auto(close_directory) DIR *directory = opendir(path);
    uint64_t sum = directory ? folder_fingerprint(directory) : 0;
    const char *name;
    while (directory && (name = next_name(directory))) {
        sum += file_fingerprint(directory, name);
    }
    return sum;
}

/* Refuses a folder in which others than root and this user may add or replace names. */
static int
check_folder(const char *path, const struct stat *about)
{
    if (!cadre_trusted_owner(about)) {
        return cadre_fail(CADRE_EREFUSED,
                          "%s: the folder belongs to user %u, neither to this user nor to root",
                          path, (unsigned)about->st_uid);
    }

    return cadre_trusted_folder(about)
               ? 0
               : cadre_fail(CADRE_EREFUSED,
                            "%s: others may write to the folder, and so say who takes part: chmod "
                            "go-w %s",
                            path, path);
}

/* Refuses a symbolic link that belongs to neither root nor this user. Anything but a link passes.
 */
static int
check_link(const char *path)
{
    struct stat about;
    if (lstat(path, &about) < 0) {
        return fail_system(path, errno);
    }
    return !S_ISLNK(about.st_mode) || cadre_trusted_owner(&about)
               ? 0
               : cadre_fail(CADRE_EREFUSED,
                            "%s: a symbolic link of user %u, neither of this user nor of root",
                            path, (unsigned)about.st_uid);
}

/* Checks the folder and its parent folder: whoever may replace the folder's name in the parent
 * replaces all keys. */
static int
check_folders(const char *path, DIR *directory)
{
    struct stat about;
    cadre_auto(cadre_free) char *copy = cadre_strdup(path);
    const char *parent = dirname(copy);
    if (stat(parent, &about) < 0) {
        return fail_system(parent, errno);
    }

    int status = check_folder(parent, &about);
    if (status < 0) {
        return status;
    }

    status = check_link(path);
    if (status < 0) {
        return status;
    }
    if (fstat(dirfd(directory), &about) < 0) {
        return fail_system(path, errno);
    }

    /* Whoever may add names to the folder allows keys. A sticky bit counts only for root's folders,
     * as kubelet's are: in those root has decided who may. */
    about.st_mode &= about.st_uid == 0 ? ~(mode_t)0 : ~(mode_t)S_ISVTX;
    return check_folder(path, &about);
}

static int
compare_keys(const void *left, const void *right)
{
    return memcmp(((const item_t *)left)->certificate.public_key,
                  ((const item_t *)right)->certificate.public_key, CADRE_KEY_TEXT_LENGTH);
}

static void
items_add(items_t *self, const cadre_certificate_t *certificate, const char *path)
{
    self->items = cadre_grow(self->items, self->count, &self->capacity, sizeof(*self->items));
    self->items[self->count++] = (item_t){*certificate, cadre_strdup(path)};
}

/* Reads every certificate of the open folder `directory` into the list; fails at the first file
 * that is wrong. */
static int
items_read(items_t *self, const char *path, DIR *directory)
{
    const char *name;
    while ((name = next_name(directory))) {
        if (self->count == CADRE_ALLOWED_KEYS_MAX) {
            return cadre_fail(CADRE_ETOOLARGE, "%s: more than %d keys", path,
                              CADRE_ALLOWED_KEYS_MAX);
        }

        cadre_auto(cadre_free) char *file = cadre_asprintf("%s/%s", path, name);
        cadre_certificate_t certificate = {0};
        int status = check_link(file);
        if (status < 0) {
            return status;
        }

        /* false: a public certificate, without a secret. */
        status = cadre_certificate_file_read(file, false, &certificate);
        if (status < 0) {
            return status;
        }

        items_add(self, &certificate, file);
    }

    return errno == 0 ? 0 : fail_system(path, errno);
}

/* Sorts the keys, and refuses a key that is in two files: which of the two roles counts would be a
 * matter of luck. */
static int
items_sort(items_t *self)
{
    qsort(self->items, self->count, sizeof(*self->items), compare_keys);
    for (size_t i = 1; i < self->count; i++) {
        if (compare_keys(&self->items[i - 1], &self->items[i]) == 0) {
            return cadre_fail(CADRE_EDATA, "%s: the same key as in %s", self->items[i].path,
                              self->items[i - 1].path);
        }
    }
    return 0;
}

/* Reads the open folder into `out`, which is empty: all its keys, in order. Fails, and gives none,
 * when the folder or any file in it is wrong. */
static int
read_directory(const char *path, DIR *directory, items_t *out)
{
    cadre_auto(items_fini) items_t keys = {0};
    int status = check_folders(path, directory);
    if (status < 0) {
        return status;
    }

    status = items_read(&keys, path, directory);
    if (status < 0) {
        return status;
    }
    if (keys.count == 0) {
        return cadre_fail(CADRE_ENOTFOUND, "%s: no certificate in it: nobody could connect", path);
    }

    status = items_sort(&keys);
    if (status < 0) {
        return status;
    }

    *out = keys;
    keys = (items_t){0};
    return 0;
}

/* Returns whether a key's own file still holds it. A file that the system cannot read just now
 * counts as holding it. */
static bool
is_held(const item_t *item)
{
    cadre_certificate_t now = {0};
    int status = check_link(item->path);
    if (status < 0) {
        return status == CADRE_EIO;
    }

    /* false: a public certificate, without a secret. */
    status = cadre_certificate_file_read(item->path, false, &now);
    if (status < 0) {
        return status == CADRE_EIO;
    }

    return now.role == item->certificate.role &&
           strcmp(now.public_key, item->certificate.public_key) == 0;
}

/* Copies to `out` the keys that stay allowed while the directory cannot be read as a whole: `all`
 * of them, or those whose files still hold them. */
static void
items_retain(const items_t *self, bool all, items_t *out)
{
    for (size_t i = 0; i < self->count; i++) {
        if (all || is_held(&self->items[i])) {
            items_add(out, &self->items[i].certificate, self->items[i].path);
        }
    }
}

/* Reads the directory and fills the empty `out` with the keys that are allowed from now on,
 * whatever status it returns: after a failure those of the old keys that stay. */
static int
look(cadre_allowed_keys_t *self, bool was_missing, items_t *out)
{
    char why[CADRE_TEXT_SIZE_MAX];
    cadre_auto(close_directory) DIR *directory = opendir(self->directory);
    int status = directory ? read_directory(self->directory, directory, out)
                           : fail_system(self->directory, errno);

    self->is_missing = !directory && status != CADRE_EIO;
    if (status < 0) {
        snprintf(why, sizeof(why), "%s", cadre_error_text());
        /* A folder that cannot be opened may be about to be replaced: all keys stay. When it is
         * missing for the second time in a row, a key stays only if its file still holds it. */
        items_retain(&self->keys, !directory && !(self->is_missing && was_missing), out);
        return cadre_fail(status, "%s", why);
    }

    return 0;
}

/* Reads all certificates in `directory`; fails when the folder or any file in it is wrong. */
int
cadre_allowed_keys_open(const char *directory, cadre_allowed_keys_t **out)
{
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *self =
        cadre_calloc(1, sizeof(*self));
    self->directory = cadre_strdup(directory);
    int status = cadre_allowed_keys_reload(self);
    if (status < 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

void
cadre_allowed_keys_close(cadre_allowed_keys_t **self_p)
{
    cadre_allowed_keys_t *self = *self_p;
    if (self) {
        items_fini(&self->keys);
        free(self->directory);
        free(self);
        *self_p = NULL;
    }
}

bool
cadre_allowed_keys_changed(const cadre_allowed_keys_t *self)
{
    return self->has_failed || fingerprint(self->directory) != self->fingerprint;
}

/* Reads the directory once more, a few times if it changes meanwhile. After a failure no key is
 * added, and of the old keys those stay whose files still hold them (look). */
int
cadre_allowed_keys_reload(cadre_allowed_keys_t *self)
{
    bool was_missing = self->is_missing;
    bool is_settled = false;
    items_t keys = {0};
    int status = 0;

    for (int i = 0; i < TRIES && !is_settled; i++) {
        items_fini(&keys);
        /* The fingerprint is taken before the files are read: a change during the last try is found
         * by the next look. */
        self->fingerprint = fingerprint(self->directory);
        status = look(self, was_missing, &keys);
        is_settled = fingerprint(self->directory) == self->fingerprint;
    }

    items_fini(&self->keys);
    self->keys = keys;
    self->has_failed = status < 0;
    return status;
}

/* Returns the certificate of an allowed key, given as text; NULL when the text is no key, or the
 * key is not allowed. */
const cadre_certificate_t *
cadre_allowed_keys_find(const cadre_allowed_keys_t *self, const char *public_key)
{
    item_t wanted = {0};
    if (self->keys.count == 0 ||
        strnlen(public_key, CADRE_KEY_TEXT_SIZE) != CADRE_KEY_TEXT_LENGTH) {
        return NULL;
    }
    memcpy(wanted.certificate.public_key, public_key, CADRE_KEY_TEXT_LENGTH);
    const item_t *found = bsearch(&wanted, self->keys.items, self->keys.count,
                                  sizeof(*self->keys.items), compare_keys);
    return found ? &found->certificate : NULL;
}

size_t
cadre_allowed_keys_count(const cadre_allowed_keys_t *self)
{
    return self->keys.count;
}

const cadre_certificate_t *
cadre_allowed_keys_item(const cadre_allowed_keys_t *self, size_t index)
{
    cadre_assert(index < self->keys.count);
    return &self->keys.items[index].certificate;
}
