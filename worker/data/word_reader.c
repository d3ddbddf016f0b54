#include "worker/data/word_reader.h"

#include <inttypes.h>

#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_word_reader_begin(cadre_word_reader_t *self)
{
    self->at = 0;
    self->stop = 0;
    self->has_words = false;
    self->is_checked = false;
}

void
cadre_word_reader_begin_checked(cadre_word_reader_t *self)
{
    cadre_word_reader_begin(self);
    self->is_checked = true;
    self->check = (cadre_text_check_t){0};
}

/* Fails with `status`, as what was read is no text, and where. Damaged content is none either, and
 * its checksums stand at the end: then it fails for that. */
static int
refuse(const cadre_word_reader_t *self, cadre_data_file_t *file, int status)
{
    cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
    int damage = cadre_data_file_check_rest(file);
    return damage == CADRE_EDATA
               ? damage
               : cadre_fail(status, "%s:%" PRIu64 ": %s", cadre_data_file_path(file),
                            self->check.line_ends + 1, reason);
}

/* Makes sure that there is a byte to be read. Returns 1, 0 at the end of the file. */
static int
fill(cadre_word_reader_t *self, cadre_data_file_t *file)
{
    if (self->at < self->stop) {
        return 1;
    }
    self->at = 0;
    self->stop = 0;
    int status = cadre_data_file_read(file, self->buffer, sizeof(self->buffer), &self->stop);
    if (status < 0) {
        return status;
    }
    if (self->is_checked) {
        status = self->stop > 0 ? cadre_text_check_add(&self->check, self->buffer, self->stop)
                                : cadre_text_check_end(&self->check);
    }
    return status < 0 ? refuse(self, file, status) : self->stop > 0;
}

/* Skips a character that is in no word. Returns whether a line without words ends with it. */
static bool
skip(cadre_word_reader_t *self)
{
    if (self->buffer[self->at++] != '\n') {
        return false;
    }
    const bool is_empty = !self->has_words;
    self->has_words = false;
    return is_empty;
}

int
cadre_word_reader_next(cadre_word_reader_t *self, cadre_data_file_t *file)
{
    size_t length = 0;
    bool is_break = false;
    int more = 0;
    while (!is_break && (more = fill(self, file)) > 0) {
        const char letter = cadre_vocabulary_letter(self->buffer[self->at]);
        if (!letter && length > 0) {
            break;
        }
        if (!letter) {
            is_break = skip(self);
            continue;
        }
        if (length == 0) {
            self->offset = cadre_data_file_offset(file) - (self->stop - self->at);
            self->has_words = true;
        }
        if (length < CADRE_WORD_SIZE - 1) {
            self->word[length++] = letter;
        }
        self->at++;
    }
    self->word[length] = '\0';
    return more < 0 ? more : length > 0 || is_break;
}
