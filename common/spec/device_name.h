/*
 * device_name - the names of devices and of the ways in which they multiply matrices, as flags, the
 * environment and job files have them.
 *
 * Only the form of a name is checked. Whether the machine has the device shows when it is opened.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_SPEC_DEVICE_NAME_H
#define CADRE_COMMON_SPEC_DEVICE_NAME_H

enum {
    CADRE_DEVICE_AUTO = -2, /* "auto", the best device there is; "auto:N" is -2 - N */
    CADRE_DEVICE_CPU = -1,
    CADRE_DEVICE_INDEX_MAX = 1023, /* N of "cuda:N" */
};

#define CADRE_MATH_WORDS "f32|tf32|bf16"

/* Converts "auto" to CADRE_DEVICE_AUTO, "auto:N" to CADRE_DEVICE_AUTO - N, which is the GPU whose
 * turn it is when the GPUs of a host are given out in turn, "cpu" to CADRE_DEVICE_CPU, "cuda" to 0
 * and "cuda:N" to N. Fails with CADRE_EINVALID and the choices for another name. */
int cadre_device_name_parse(const char *name, int *device);

/* Fails with CADRE_EINVALID and the choices for a text that is not one of CADRE_MATH_WORDS. */
int cadre_math_check(const char *math);

#endif
