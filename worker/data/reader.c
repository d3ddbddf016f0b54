#include "worker/data/reader.h"

#include <float.h>
#include <math.h>

#include "common/base/assert.h"
#include "common/base/status.h"

/* Multiplies a number of the file by the scale of the data description, as f32; false when the
 * result is not finite. */
bool
cadre_reader_scale(const cadre_reader_t *self, double number, float *out)
{
    double scaled = number * self->spec->scale;
    if (!(fabs(scaled) <= (double)FLT_MAX)) {
        return false;
    }
    *out = (float)scaled;
    return true;
}

const char *
cadre_reader_path(const cadre_reader_t *self)
{
    if (self->rows) {
        return "memory";
    }
    return self->files.items[self->next_file > 0 ? self->next_file - 1 : 0];
}

const char *
cadre_reader_labels_path(const cadre_reader_t *self)
{
    cadre_assert(self->next_file > 0 && self->next_file <= self->labels_files.count);
    return self->labels_files.items[self->next_file - 1];
}

/* Fails with `status` and the names of the files in front of this thread's error text. */
int
cadre_reader_fail_whole(const cadre_reader_t *self, int status)
{
    if (self->rows || self->files.count == 1) {
        return cadre_fail_within(status, "%s", cadre_reader_path(self));
    }
    return cadre_fail_within(status, "%s and %zu more files", self->files.items[0],
                             self->files.count - 1);
}

void
cadre_reader_make_store(cadre_reader_t *self, cadre_row_kind_t kind, int64_t features)
{
    if (!self->store) {
        self->store = cadre_row_store_new(kind, self->spec, features, self->size_bytes_max);
    }
}
