/*
 * device_list - the devices of several workers as one text: names (device_name.h) with commas
 * between them, "cuda:0,cuda:2,cpu".
 *
 * Workers are given them in turn. "auto" stands alone: it is the GPUs of the machine in turn.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_SPEC_DEVICE_LIST_H
#define CADRE_COMMON_SPEC_DEVICE_LIST_H

#include <stddef.h>

/* Checks a list. Fails with CADRE_EINVALID, and a text that names the device, where it is none. */
int cadre_device_list_check(const char *list);

/* Returns how many names a list has. */
size_t cadre_device_list_count(const char *list);

/* Returns the name whose turn it is for task `index`, freed by the caller. */
char *cadre_device_list_item(const char *list, size_t index);

#endif
