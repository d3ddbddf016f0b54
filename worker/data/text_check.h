/*
 * text_check - whether bytes are those of a text.
 *
 * Owner:   whoever reads the text.
 * Thread:  one at a time.
 *
 * A text is UTF-8 whose only bytes below a blank are TAB, LF, VT, FF and CR, without DEL. U+0080 to
 * U+009F are allowed: texts from the web have them where they were converted badly. That refuses
 * archives, pictures, texts in UTF-16 and almost all in Latin-1 that are not ASCII.
 */
#ifndef CADRE_WORKER_DATA_TEXT_CHECK_H
#define CADRE_WORKER_DATA_TEXT_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory is in front of a text. */
typedef struct {
    uint64_t line_ends; /* that were seen */
    size_t tail;        /* bytes that the character that has begun still needs */
    uint8_t lead;       /* its first byte */
    uint8_t low;        /* the next byte is in `low` to `high` */
    uint8_t high;
} cadre_text_check_t;

/* Checks the next bytes. Fails with CADRE_EDATA and a bare reason; `line_ends` are then those in
 * front of the wrong byte. */
int cadre_text_check_add(cadre_text_check_t *self, const void *bytes, size_t size_bytes);

/* Fails with CADRE_EDATA when the text ends within a character. */
int cadre_text_check_end(const cadre_text_check_t *self);

#endif
