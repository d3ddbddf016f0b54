/*
 * disk_states - what a crash may leave of a disk: states drawn from a log of what was done to it.
 *
 * The rules are POSIX's and no kinder. A write is certain when a sync of its file came after it and
 * returned; a change of names when one of its directory did. What is not certain may be there or
 * not, each by itself, in any order; a write may be there in some of its 512-byte sectors; a file
 * may have grown to its size without the bytes. A rename is one thing: it is there or it is not.
 * The call that was under way when the crash came is not certain.
 */
#ifndef CADRE_TESTS_CHECKPOINT_DISK_STATES_H
#define CADRE_TESTS_CHECKPOINT_DISK_STATES_H

#include "common/base/random.h"
#include "tests/checkpoint/disk_shim.h"

enum { DISK_SECTOR = 512, DISK_NODE_SIZE_MAX = 1 << 20 };

/* An operation with its names resolved: nodes are numbered in the order they came to be. */
typedef struct {
    const disk_op_t *op;
    size_t directory; /* the node that holds the name; renames stay in one directory */
    size_t node;      /* made, written, synced, renamed, removed */
    const char *name;
    const char *to;
    size_t certain_at; /* index of the sync after which this is certain; SIZE_MAX for never */
} disk_step_t;

typedef struct {
    size_t directory;
    size_t node;
    const char *name;
} disk_entry_t;

typedef struct {
    disk_step_t *steps;
    size_t count;
    size_t node_count; /* node 0 is the root */
    bool *is_directory;
    disk_entry_t *entries; /* of the state that is being drawn, or of the walk so far */
    size_t entry_count;
    cadre_random_t random;
} disk_states_t;

/* --- names --- */

static inline size_t
disk_entry_find(const disk_states_t *self, size_t directory, const char *name)
{
    size_t i = 0;
    while (i < self->entry_count &&
           (self->entries[i].directory != directory || strcmp(self->entries[i].name, name) != 0)) {
        i++;
    }
    return i;
}

static inline void
disk_entry_remove(disk_states_t *self, size_t directory, const char *name)
{
    size_t i = disk_entry_find(self, directory, name);
    if (i < self->entry_count) {
        self->entries[i] = self->entries[--self->entry_count];
    }
}

static inline void
disk_entry_put(disk_states_t *self, size_t directory, const char *name, size_t node)
{
    disk_entry_remove(self, directory, name);
    self->entries[self->entry_count++] = (disk_entry_t){directory, node, name};
}

/* The node at `path`, and in `directory` and `name` where its last part stands. */
static inline size_t
disk_resolve(const disk_states_t *self, const char *path, size_t *directory, const char **name)
{
    size_t node = 0;
    *name = path;
    *directory = 0;
    for (const char *at = path; *at;) {
        char part[NAME_MAX + 1];
        size_t size = strcspn(at, "/");
        snprintf(part, sizeof(part), "%.*s", (int)size, at);
        *directory = node;
        *name = at;
        size_t i = disk_entry_find(self, node, part);
        node = i < self->entry_count ? self->entries[i].node : SIZE_MAX;
        at += size + (at[size] == '/');
    }
    return node;
}

static inline void
disk_apply_name(disk_states_t *self, const disk_step_t *step)
{
    if (step->op->kind == DISK_MKDIR || step->op->kind == DISK_CREATE) {
        disk_entry_put(self, step->directory, step->name, step->node);
    } else if (step->op->kind == DISK_RENAME) {
        disk_entry_remove(self, step->directory, step->name);
        disk_entry_put(self, step->directory, step->to, step->node);
    } else if (step->op->kind == DISK_UNLINK || step->op->kind == DISK_RMDIR) {
        disk_entry_remove(self, step->directory, step->name);
    }
}

static inline bool
disk_changes_names(disk_kind_t kind)
{
    return kind == DISK_MKDIR || kind == DISK_CREATE || kind == DISK_RENAME ||
           kind == DISK_UNLINK || kind == DISK_RMDIR;
}

/* --- reading the log --- */

static inline void
disk_resolve_step(disk_states_t *self, size_t index)
{
    disk_step_t *step = &self->steps[index];
    const disk_op_t *op = step->op;
    if (op->kind == DISK_MARK) {
        return;
    }
    step->node = disk_resolve(self, op->path, &step->directory, &step->name);
    if (op->kind == DISK_MKDIR || op->kind == DISK_CREATE) {
        step->node = self->node_count++;
        self->is_directory[step->node] = op->kind == DISK_MKDIR;
    } else if (op->kind == DISK_RENAME) {
        size_t directory = 0;
        disk_resolve(self, op->to, &directory, &step->to);
    }
    disk_apply_name(self, step);
}

/* Reads the shim's log, which stays where it is. */
static inline void
disk_states_init(disk_states_t *self, uint64_t seed)
{
    size_t count = disk_shim.count;
    *self = (disk_states_t){.count = count, .node_count = 1};
    cadre_random_init(&self->random, seed, 0);
    self->steps = calloc(count, sizeof(*self->steps));
    self->is_directory = calloc(count + 1, sizeof(*self->is_directory));
    self->entries = calloc(count + 1, sizeof(*self->entries));
    self->is_directory[0] = true;
    for (size_t i = 0; i < count; i++) {
        self->steps[i].op = &disk_shim.log[i];
        disk_resolve_step(self, i);
    }
    for (size_t i = 0; i < count; i++) {
        disk_step_t *step = &self->steps[i];
        size_t object = disk_changes_names(step->op->kind) ? step->directory : step->node;
        step->certain_at = step->op->is_synced ? i : SIZE_MAX;
        for (size_t k = i + 1; k < count && step->certain_at == SIZE_MAX; k++) {
            if (self->steps[k].op->kind == DISK_SYNC && self->steps[k].node == object) {
                step->certain_at = k;
            }
        }
    }
}

static inline void
disk_states_fini(disk_states_t *self)
{
    free(self->steps);
    free(self->is_directory);
    free(self->entries);
}

/* --- drawing a state --- */

/* How the uncertain things of one state are drawn. */
typedef enum { DISK_LOST, DISK_KEPT, DISK_MIXED, DISK_TORN, DISK_WAYS } disk_way_t;

static inline bool
disk_keeps(disk_states_t *self, disk_way_t way)
{
    return way == DISK_KEPT || (way != DISK_LOST && cadre_random_below(&self->random, 2) == 0);
}

/* Puts a write's bytes, or some of its sectors, into the file's. */
static inline void
disk_put_bytes(disk_states_t *self, const disk_step_t *step, bool is_torn, uint8_t *bytes)
{
    const disk_op_t *op = step->op;
    for (uint64_t at = op->offset; at < op->offset + op->size_bytes;) {
        uint64_t next = (at / DISK_SECTOR + 1) * DISK_SECTOR;
        uint64_t end = op->offset + op->size_bytes < next ? op->offset + op->size_bytes : next;
        if (!is_torn || cadre_random_below(&self->random, 2) == 0) {
            memcpy(bytes + at, op->bytes + (at - op->offset), end - at);
        }
        at = end;
    }
}

/* The bytes of a file when everything before `crash` was called; its size. */
static inline size_t
disk_draw_file(disk_states_t *self, size_t node, size_t crash, disk_way_t way, uint8_t *bytes)
{
    size_t size = 0;
    memset(bytes, 0, DISK_NODE_SIZE_MAX);
    for (size_t i = 0; i <= crash && i < self->count; i++) {
        const disk_step_t *step = &self->steps[i];
        if (step->op->kind != DISK_WRITE || step->node != node) {
            continue;
        }
        size_t end = step->op->offset + step->op->size_bytes;
        bool is_certain = step->certain_at < crash;
        bool is_kept = is_certain || disk_keeps(self, way);
        if (end > DISK_NODE_SIZE_MAX) {
            abort();
        }
        if (is_kept) {
            disk_put_bytes(self, step, !is_certain && way == DISK_TORN, bytes);
        }
        if (end > size && (is_kept || disk_keeps(self, way))) {
            size = end; /* it grew, whether its bytes came or not */
        }
    }
    return size;
}

static inline void
disk_write_tree(disk_states_t *self, size_t directory, const char *path, size_t crash,
                disk_way_t way, uint8_t *bytes)
{
    for (size_t i = 0; i < self->entry_count; i++) {
        const disk_entry_t *entry = &self->entries[i];
        if (entry->directory != directory) {
            continue;
        }
        char place[PATH_MAX];
        size_t length = strcspn(entry->name, "/");
        if (snprintf(place, sizeof(place), "%s/%.*s", path, (int)length, entry->name) < 0) {
            abort();
        }
        if (self->is_directory[entry->node]) {
            if (mkdir(place, 0777) != 0) {
                abort();
            }
            disk_write_tree(self, entry->node, place, crash, way, bytes);
            continue;
        }
        size_t size = disk_draw_file(self, entry->node, crash, way, bytes);
        int fd = open(place, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd) != 0) {
            abort();
        }
    }
}

/* Draws a state for a crash while operation `crash` was under way (`count`: after all of them) and
 * writes it into `path`, an empty directory that stands for the root. */
static inline void
disk_states_draw(disk_states_t *self, size_t crash, disk_way_t way, const char *path)
{
    static uint8_t bytes[DISK_NODE_SIZE_MAX];
    self->entry_count = 0;
    for (size_t i = 0; i <= crash && i < self->count; i++) {
        const disk_step_t *step = &self->steps[i];
        if (disk_changes_names(step->op->kind) &&
            (step->certain_at < crash || disk_keeps(self, way))) {
            disk_apply_name(self, step);
        }
    }
    disk_write_tree(self, 0, path, crash, way, bytes);
}

#endif
