/* Reading through all files: the part of the reader that knows each format's. */
#include "worker/data/reader.h"

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/array_file.h"

static const struct {
    int (*begin)(cadre_reader_t *self);
    int (*next)(cadre_reader_t *self);
    void (*end)(cadre_reader_t *self);
} formats[] = {
#define ROW(NAME, word, has)                                                                       \
    [CADRE_DATA_##NAME] = {cadre_##word##_begin, cadre_##word##_next, cadre_##word##_end},
    CADRE_DATA_FORMAT_LIST(ROW)
#undef ROW
};

/* Opens the next file, and has the format look at it. */
static int
open_file(cadre_reader_t *self)
{
    const char *path = self->files.items[self->next_file++];
    int status = cadre_data_file_open(path, self->root, self->content_bytes_max, &self->file);
    if (status < 0) {
        return status;
    }
    if (self->points && !self->is_indexed) {
        cadre_data_file_note(self->file, self->points, self->next_file - 1);
    }
    return formats[self->spec->format].begin(self);
}

/* Gives the status of a file that failed. Where a bad line was one too many the file may be damaged
 * instead, as checksums stand at the end of compressed data: then it fails for that, and the line
 * is no bad line. */
static int
tell_damage(cadre_reader_t *self, int status)
{
    if (status != CADRE_EDATA || !self->file || !self->bad || !self->bad->is_exceeded) {
        return status;
    }
    cadre_auto(cadre_free) char *line = cadre_strdup(cadre_error_text());
    if (cadre_data_file_check_rest(self->file) != CADRE_EDATA) {
        return cadre_fail(status, "%s", line);
    }
    self->bad->is_exceeded = false;
    cadre_auto(cadre_free) char *damage = cadre_strdup(cadre_error_text());
    return cadre_fail(status, "%s; so are lines before that: %s", damage, line);
}

/* Reads on by one line or row, into the next file at the end of one. */
int
cadre_reader_next(cadre_reader_t *self)
{
    while (self->file || self->next_file < self->files.count) {
        int status = self->file ? 0 : open_file(self);
        status = status < 0 ? status : formats[self->spec->format].next(self);
        if (status != 0) {
            return status < 0 ? tell_damage(self, status) : status;
        }
        cadre_data_file_close(&self->file);
    }
    return 0;
}

cadre_reader_place_t
cadre_reader_place(const cadre_reader_t *self)
{
    cadre_reader_place_t place = {.next_file = (uint32_t)self->next_file,
                                  .is_open = self->file != NULL};
    if (self->file) {
        place.offset = cadre_data_file_offset(self->file);
        place.number = (uint64_t)cadre_data_file_line_number(self->file);
    }
    if (self->text) {
        cadre_text_tell(self, &place);
    }
    return place;
}

/* Opens the file of a place behind its begin, and goes there. */
static int
open_within(cadre_reader_t *self, const cadre_reader_place_t *place)
{
    self->next_file = place->next_file - 1;
    self->from = place->offset;
    int status = open_file(self);
    self->from = 0;
    return status < 0 ? status
                      : cadre_data_file_seek(self->file, self->points, self->next_file - 1,
                                             place->offset, (int64_t)place->number);
}

/* Returns whether what is read next at the one place is what is read at the other, in an open file.
 */
static bool
is_same(const cadre_reader_place_t *left, const cadre_reader_place_t *right)
{
    return left->is_open && right->is_open && left->next_file == right->next_file &&
           left->offset == right->offset && left->center == right->center &&
           left->row == right->row;
}

/* Goes on to a place of the open file. */
static int
go_on(cadre_reader_t *self, const cadre_reader_place_t *place)
{
    int status = self->arrays ? cadre_array_files_skip_to(self, place->offset) : 0;
    return status < 0 ? status
                      : cadre_data_file_seek(self->file, self->points, self->next_file - 1,
                                             place->offset, (int64_t)place->number);
}

/* Goes to a place of a file: on from where the reader is, if that is in the same file and nothing
 * is nearer, as within a frame of zstd; else the file is opened again. */
static int
go_into(cadre_reader_t *self, const cadre_reader_place_t *place)
{
    if (self->file && self->next_file == place->next_file &&
        cadre_data_file_is_near(self->file, self->points, self->next_file - 1, place->offset)) {
        return go_on(self, place);
    }
    cadre_data_file_close(&self->file);
    return open_within(self, place);
}

int
cadre_reader_go_to(cadre_reader_t *self, const cadre_reader_place_t *place)
{
    const cadre_reader_place_t here = cadre_reader_place(self);
    if (is_same(&here, place)) {
        return 0;
    }
    int status = 0;
    if (place->is_open && place->offset > 0) {
        status = go_into(self, place);
    } else {
        cadre_data_file_close(&self->file);
        self->next_file = place->next_file - (place->is_open ? 1 : 0);
    }
    if (status < 0) {
        cadre_data_file_close(&self->file);
        return status;
    }
    if (self->text) {
        cadre_text_go_to(self, place);
    }
    return 0;
}

int
cadre_reader_read_all(cadre_reader_t *self)
{
    if (self->rows) {
        return cadre_memory_read(self);
    }

    int more = 0;
    while ((more = cadre_reader_next(self)) > 0) {
    }
    if (more == 0 && !self->store) {
        return cadre_fail(CADRE_EDATA, "%s: no rows", self->files.items[0]);
    }
    return more;
}

void
cadre_reader_fini(cadre_reader_t *self)
{
    if (self->spec && !self->rows) {
        formats[self->spec->format].end(self);
    }
    cadre_data_file_close(&self->file);
    cadre_file_names_fini(&self->files);
    cadre_file_names_fini(&self->labels_files);
}
