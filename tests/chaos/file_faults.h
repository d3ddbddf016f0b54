/*
 * file_faults - a disk that fails on order: what a test and the preloaded library
 * file_faults_preload.c agree on, and the test's side of it.
 *
 * The library stands before the calls that change files: open with O_CREAT, mkdir, write, pwrite,
 * writev, pwritev, ftruncate, fsync, fdatasync, rename, unlink and their relatives. It counts those
 * that touch something under one directory, also where a path goes by a descriptor
 * (/proc/self/fd/N), and makes the n-th of them fail, or all from the n-th on, or some at random,
 * or kills the process in its place. Orders can change while the process runs; a process that is
 * started again takes over the same ones. Not seen: msync and writes
 * through a shared mapping, which nothing here uses. A sanitizer's runtime must come first in a
 * process, so it has no place there.
 *
 * Owner:   a test; each process with the library maps it.
 * Thread:  any; all but the first two fields is atomic.
 */
#ifndef CADRE_TESTS_CHAOS_FILE_FAULTS_H
#define CADRE_TESTS_CHAOS_FILE_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FILE_FAULTS_VARIABLE "CADRE_FILE_FAULTS" /* names the file with the orders */

enum { FILE_FAULTS_PATH_SIZE = 256, FILE_FAULTS_KILL = -1 };

typedef struct {
    char directory[FILE_FAULTS_PATH_SIZE];
    char program[32];         /* only calls of the program of this name count; "": of every one */
    _Atomic int32_t error;    /* 0: off; an errno; FILE_FAULTS_KILL */
    _Atomic uint64_t from;    /* the first call that fails, from 1 */
    _Atomic bool sticky;      /* so do those after it */
    _Atomic uint32_t percent; /* not 0: each fails with this probability instead */
    _Atomic uint64_t calls;   /* since armed */
    _Atomic uint64_t failed;  /* of them */
    char last_call[32];       /* the last one that failed */
    char last_path[FILE_FAULTS_PATH_SIZE];
} file_faults_t;

/* Makes the orders for `directory` in the file `path`, all off. */
file_faults_t *file_faults_open(const char *path, const char *directory);

void file_faults_close(file_faults_t **self_p);

/* From now on: the `from`-th call fails with `error`, and with `sticky` those after it. */
void file_faults_arm(file_faults_t *self, int error, uint64_t from, bool sticky);

/* Each call fails with that probability. */
void file_faults_arm_random(file_faults_t *self, int error, uint32_t percent);

/* Nothing fails any more; calls are still counted. */
void file_faults_disarm(file_faults_t *self);

#endif
