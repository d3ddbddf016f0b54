#include "tests/chaos/file_faults.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/system/scratch.h"

file_faults_t *
file_faults_open(const char *path, const char *directory)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    require(fd >= 0 && ftruncate(fd, sizeof(file_faults_t)) == 0, path);
    file_faults_t *self = mmap(NULL, sizeof(*self), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    require(self != MAP_FAILED, path);
    close(fd);
    require(strlen(directory) < sizeof(self->directory), "a short directory");
    snprintf(self->directory, sizeof(self->directory), "%s", directory);
    return self;
}

void
file_faults_close(file_faults_t **self_p)
{
    munmap(*self_p, sizeof(**self_p));
    *self_p = NULL;
}

static void
arm(file_faults_t *self, int error, uint64_t from, bool sticky, uint32_t percent)
{
    atomic_store(&self->error, 0);
    atomic_store(&self->from, from);
    atomic_store(&self->sticky, sticky);
    atomic_store(&self->percent, percent);
    atomic_store(&self->calls, 0);
    atomic_store(&self->failed, 0);
    atomic_store(&self->error, error);
}

void
file_faults_arm(file_faults_t *self, int error, uint64_t from, bool sticky)
{
    arm(self, error, from, sticky, 0);
}

void
file_faults_arm_random(file_faults_t *self, int error, uint32_t percent)
{
    arm(self, error, 0, false, percent);
}

void
file_faults_disarm(file_faults_t *self)
{
    atomic_store(&self->error, 0);
}
