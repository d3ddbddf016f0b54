#include "worker/data/reader.h"

#include <float.h>
#include <math.h>

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
