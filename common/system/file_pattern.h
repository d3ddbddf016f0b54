/*
 * file_pattern - the files whose names fit a path with * ? or [] in it.
 *
 * Owner:   the caller of cadre_file_pattern_expand; ended with cadre_file_names_fini.
 * Thread:  any, one at a time.
 *
 * A pattern is a shell's: `*` and `?` stand for no `/` and for no dot at the beginning of a name. A
 * path that a file has as its name is that file, whatever characters are in it.
 */
#ifndef CADRE_COMMON_SYSTEM_FILE_PATTERN_H
#define CADRE_COMMON_SYSTEM_FILE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char **items;
    size_t count;
    size_t capacity;
} cadre_file_names_t;

/* Returns whether a character of `path` stands for others. */
bool cadre_file_pattern_is(const char *path);

/* Appends the files that fit `path`, in the order of their bytes, so that it is the same on every
 * machine. A relative path is in the folder `base` (NULL or "": the current one), whose own name is
 * no pattern. A path that is no pattern is appended as it is, be there a file or none.
 * CADRE_ENOTFOUND when no file fits, CADRE_ETOOLARGE when `names` would have more than `count_max`;
 * `names` is then to be ended all the same. */
int cadre_file_pattern_expand(const char *base, const char *path, size_t count_max,
                              cadre_file_names_t *names);

/* Frees the names and clears the struct; harmless on a zeroed one. */
void cadre_file_names_fini(cadre_file_names_t *self);

#endif
