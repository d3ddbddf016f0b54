#include "common/allowed_keys.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "common/assert.h"
#include "common/certificate_file.h"
#include "common/memory.h"
#include "common/status.h"

typedef struct {
    cadre_certificate_t certificate;
    char *path;
} item_t;

/* Sorted by public key. Zeroed memory is an empty list. */
typedef struct {
    item_t *items;
    size_t count;
    size_t capacity;
} items_t;

struct cadre_allowed_keys {
    char *directory;
    items_t keys;
    uint64_t fingerprint; /* of the directory when it was last read */
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

static int
fail_system(const char *path, int error)
{
    char reason[256];
    return cadre_fail(error == ENOENT ? CADRE_ENOTFOUND : CADRE_EIO, "%s: %s", path,
                      strerror_r(error, reason, sizeof(reason)));
}

/* The next name that does not begin with "."; NULL at the end, and then errno is 0 or says why. */
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

/* What a hash of one file is made of, without padding. */
typedef struct {
    uint64_t device, inode, size, mode, user;
    uint64_t modified_s, modified_ns, changed_s, changed_ns;
} file_facts_t;

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

/* Of the names and what stat says of them, in any order; 0 for a directory that is not there. */
static uint64_t
fingerprint(const char *path)
{
    cadre_auto(close_directory) DIR *directory = opendir(path);
    uint64_t sum = directory ? 1 : 0;
    const char *name;
    while (directory && (name = next_name(directory))) {
        sum += file_fingerprint(directory, name);
    }
    return sum;
}

static int
compare_keys(const void *left, const void *right)
{
    return memcmp(((const item_t *)left)->certificate.public_key,
                  ((const item_t *)right)->certificate.public_key, CADRE_KEY_TEXT_LENGTH);
}

/* Adds the certificate at `path`, which then owns the path, too. */
static int
items_add(items_t *self, char **path_p)
{
    if (self->count == self->capacity) {
        self->capacity = self->capacity > 0 ? 2 * self->capacity : 8;
        self->items = cadre_realloc(self->items, self->capacity, sizeof(*self->items));
    }
    item_t *item = &self->items[self->count];
    int status = cadre_certificate_file_read(*path_p, false, &item->certificate);
    if (status == 0) {
        item->path = *path_p;
        *path_p = NULL;
        self->count++;
    }
    return status;
}

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
        int status = items_add(self, &file);
        if (status < 0) {
            return status;
        }
    }
    return errno == 0 ? 0 : fail_system(path, errno);
}

/* Sorts, and refuses a key that is there twice: which role it has would be a matter of luck. */
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

static int
read_directory(const char *path, items_t *out)
{
    cadre_auto(items_fini) items_t keys = {0};
    cadre_auto(close_directory) DIR *directory = opendir(path);
    if (!directory) {
        return fail_system(path, errno);
    }
    int status = items_read(&keys, path, directory);
    if (status == 0 && keys.count == 0) {
        status =
            cadre_fail(CADRE_ENOTFOUND, "%s: no certificate in it: nobody could connect", path);
    }
    if (status == 0) {
        status = items_sort(&keys);
    }
    if (status == 0) {
        *out = keys;
        keys = (items_t){0};
    }
    return status;
}

int
cadre_allowed_keys_open(const char *directory, cadre_allowed_keys_t **out)
{
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *self =
        cadre_calloc(1, sizeof(*self));
    self->directory = cadre_strdup(directory);
    int status = cadre_allowed_keys_reload(self);
    if (status == 0) {
        *out = self;
        self = NULL;
    }
    return status;
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
    return fingerprint(self->directory) != self->fingerprint;
}

int
cadre_allowed_keys_reload(cadre_allowed_keys_t *self)
{
    /* Before the files: what changes while they are read is found the next time. */
    self->fingerprint = fingerprint(self->directory);
    items_t keys;
    int status = read_directory(self->directory, &keys);
    if (status == 0) {
        items_fini(&self->keys);
        self->keys = keys;
    }
    return status;
}

const cadre_certificate_t *
cadre_allowed_keys_find(const cadre_allowed_keys_t *self, const char *public_key)
{
    item_t wanted = {0};
    if (strnlen(public_key, CADRE_KEY_TEXT_SIZE) != CADRE_KEY_TEXT_LENGTH) {
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
