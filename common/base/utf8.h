/*
 * utf8 - text that is safe to keep, log and send: UTF-8 without control characters.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_BASE_UTF8_H
#define CADRE_COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns how many bytes follow the first byte of a character of more than one, 1 to 3; 0 when no
 * such character begins with it. The first of them is in `*low` to `*high`, any further in 0x80 to
 * 0xbf. */
size_t cadre_utf8_tail(uint8_t lead, uint8_t *low, uint8_t *high);

/* Returns the length of the character with which `bytes` begins, 1 to 4 bytes; 0 when that is not
 * allowed or not there: no bytes are left, they are not UTF-8 (Unicode 15, table 3-7), or it is a
 * control character (U+0000 to U+001F, U+007F to U+009F). */
size_t cadre_utf8_character(const char *bytes, size_t size_bytes);

/* Returns whether all of `bytes` is characters that cadre_utf8_character accepts; true for no
 * bytes. */
bool cadre_utf8_valid(const char *bytes, size_t size_bytes);

/* Copies the string `text` (NULL means "") with every byte that fits no character replaced by "?",
 * an ASCII control character by a space, and whole characters dropped at the end so that at most
 * `size_bytes_max` bytes and a NUL are written to `out`; returns the bytes without the NUL. */
size_t cadre_utf8_clean(const char *text, size_t size_bytes_max, char *out);

#endif
