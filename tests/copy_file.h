/* copy_file - a copy of a program or a module, that a test may start, change or take away. */
#ifndef CADRE_TESTS_COPY_FILE_H
#define CADRE_TESTS_COPY_FILE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>

static inline void
copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    cr_assert(in && out, "%s", from);
    char bytes[65536];
    size_t count = 0;
    while ((count = fread(bytes, 1, sizeof(bytes), in)) > 0) {
        cr_assert_eq(fwrite(bytes, 1, count, out), count);
    }
    fclose(in);
    fclose(out);
    cr_assert_eq(chmod(to, 0755), 0);
}

#endif
