#include "tests/chaos/marks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

marks_t *
marks_map(const char *path, bool create)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && (!create || ftruncate(fd, sizeof(marks_t)) == 0)) {
        memory = mmap(NULL, sizeof(marks_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    return memory == MAP_FAILED ? NULL : memory;
}

void
marks_unmap(marks_t **self_p)
{
    if (*self_p) {
        munmap(*self_p, sizeof(marks_t));
        *self_p = NULL;
    }
}
