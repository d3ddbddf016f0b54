/*
 * device_list - the devices of several workers as one text: names (device_name.h) with commas
 * between them, "cuda:0,cuda:2,cpu".
 *
 * Worker i gets the device at i modulo the length of the list. "auto" is allowed only as the whole
 * list: it means the GPUs of the machine, one for each worker in turn.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_SPEC_DEVICE_LIST_H
#define CADRE_COMMON_SPEC_DEVICE_LIST_H

#include <stddef.h>

/* Checks a list. Fails with CADRE_EINVALID and a text where a name is not that of a device, or
 * "auto" is one of several. */
int cadre_device_list_check(const char *list);

/* Returns how many names a list has. */
size_t cadre_device_list_count(const char *list);

/* Returns the name for worker `index`, at `index` modulo the length of the list; the caller frees
 * it. The list must have passed cadre_device_list_check. */
char *cadre_device_list_item(const char *list, size_t index);

#endif
