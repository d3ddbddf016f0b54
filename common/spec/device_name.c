#include "common/spec/device_name.h"

#include <string.h>

#include "common/base/status.h"

/* Returns N for "cuda:N", 0 for "cuda", -1 for any other name. */
static int
cuda_index(const char *name)
{
    if (strcmp(name, "cuda") == 0) {
        return 0;
    }
    if (strncmp(name, "cuda:", 5) != 0 || !name[5]) {
        return -1;
    }
    int index = 0;
    for (const char *c = name + 5; *c; c++) {
        if (*c < '0' || *c > '9') {
            return -1;
        }
        index = index * 10 + (*c - '0');
        if (index > CADRE_DEVICE_INDEX_MAX) {
            return -1;
        }
    }
    return index;
}

int
cadre_device_name_parse(const char *name, int *device)
{
    int index = cuda_index(name);
    if (index >= 0) {
        *device = index;
    } else if (strcmp(name, "cpu") == 0) {
        *device = CADRE_DEVICE_CPU;
    } else if (strcmp(name, "auto") == 0) {
        *device = CADRE_DEVICE_AUTO;
    } else {
        return cadre_fail(CADRE_EINVALID,
                          "no device \"%.64s\": it is auto, cpu, cuda, or cuda:N with N in 0 to %d",
                          name, CADRE_DEVICE_INDEX_MAX);
    }
    return 0;
}

int
cadre_math_check(const char *math)
{
    size_t length = strlen(math);
    const char *word = CADRE_MATH_WORDS;
    for (size_t size = 0; *word; word += size + (word[size] == '|')) {
        size = strcspn(word, "|");
        if (size == length && strncmp(word, math, size) == 0) {
            return 0;
        }
    }
    return cadre_fail(CADRE_EINVALID, "math \"%.64s\" is none of %s", math, CADRE_MATH_WORDS);
}
