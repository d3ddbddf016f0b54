#include "common/spec/device_name.h"

#include <string.h>

#include "common/base/status.h"

/* Returns N for "KIND:N", 0 for "KIND", -1 for any other name. */
static int
index_of(const char *kind, const char *name)
{
    size_t length = strlen(kind);
    if (strcmp(name, kind) == 0) {
        return 0;
    }
    if (strncmp(name, kind, length) != 0 || name[length] != ':' || !name[length + 1]) {
        return -1;
    }
    int index = 0;
    for (const char *c = name + length + 1; *c; c++) {
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

/* Converts the name of a device to a number: N for "cuda:N", CADRE_DEVICE_CPU for "cpu",
 * CADRE_DEVICE_AUTO - N for "auto:N"; without ":N", N is 0. */
int
cadre_device_name_parse(const char *name, int *device)
{
    int index = index_of("cuda", name);
    int turn = index_of("auto", name); /* of the GPUs of a host, given out in turn */
    if (index >= 0) {
        *device = index;
    } else if (turn >= 0) {
        *device = CADRE_DEVICE_AUTO - turn;
    } else if (strcmp(name, "cpu") == 0) {
        *device = CADRE_DEVICE_CPU;
    } else if (index_of("tpu", name) >= 0) {
        return cadre_fail(
            CADRE_EINVALID,
            "no device \"%.64s\": Cadre computes on CPUs and NVIDIA GPUs, there is no "
            "device for TPUs; take auto, cpu, cuda or cuda:N",
            name);
    } else {
        return cadre_fail(CADRE_EINVALID,
                          "no device \"%.64s\": it is auto, cpu, cuda, or cuda:N with N in 0 to %d",
                          name, CADRE_DEVICE_INDEX_MAX);
    }
    return 0;
}

/* Checks that `math` is one of the words of CADRE_MATH_WORDS, which '|' separates. */
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
