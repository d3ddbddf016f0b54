#include "worker/data/label.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "common/base/status.h"

/* Begins to read the labels of one file, by the job's data description. */
void
cadre_label_rule_init(cadre_label_rule_t *self, const cadre_data_spec_t *spec)
{
    *self = (cadre_label_rule_t){
        .kind = spec->label_kind,
        .classes = spec->classes > 0 ? spec->classes : CADRE_DATA_CLASSES_MAX,
        .negative = 1,
    };
}

/* Reads the number of a class, and notes the largest so far, from which the number of classes may
 * follow. */
static int
read_class(cadre_label_rule_t *self, double number, cadre_label_t *out)
{
    if (!(number >= 0) || number >= (double)self->classes || number != floor(number)) {
        return cadre_fail(CADRE_EDATA, "label %g is no class from 0 to %" PRId64 "%s", number,
                          self->classes - 1,
                          number == -1 ? "; for -1 and 1 use label_kind \"binary\"" : "");
    }

    out->number = (int32_t)number;
    if (out->number >= self->classes_seen) {
        self->classes_seen = out->number + 1;
    }
    return 0;
}

/* Reads a label of two classes: 1, and for the other class 0 or -1, of which a file may have only
 * one. */
static int
read_binary(cadre_label_rule_t *self, double number, cadre_label_t *out)
{
    if (number != 1 && number != 0 && number != -1) {
        return cadre_fail(CADRE_EDATA, "label %g is not one of 0, 1 and -1", number);
    }

    if (number != 1) {
        if (self->negative != 1 && self->negative != number) {
            return cadre_fail(CADRE_EDATA, "label %g, where earlier lines have %g and 1", number,
                              self->negative);
        }
        self->negative = number;
    }

    out->value = number == 1 ? 1 : 0;
    return 0;
}

/* Turns a number of the file into a label; CADRE_EDATA when the number is none. */
int
cadre_label_rule_read(cadre_label_rule_t *self, double number, cadre_label_t *out)
{
    switch (self->kind) {
    case CADRE_LABEL_CLASS:
        return read_class(self, number, out);
    case CADRE_LABEL_BINARY:
        return read_binary(self, number, out);
    case CADRE_LABEL_VALUE:
        break;
    }

    if (!(fabs(number) <= (double)FLT_MAX)) {
        return cadre_fail(CADRE_EDATA, "label %g does not fit f32", number);
    }

    out->value = (float)number;
    return 0;
}

/* Returns how many classes the dataset has: as described, or as the labels have shown; 0 for labels
 * that are values. */
int64_t
cadre_label_rule_classes(const cadre_label_rule_t *self, const cadre_data_spec_t *spec)
{
    switch (self->kind) {
    case CADRE_LABEL_CLASS:
        return spec->classes > 0 ? spec->classes : self->classes_seen;
    case CADRE_LABEL_BINARY:
        return 2;
    case CADRE_LABEL_VALUE:
        break;
    }
    return 0;
}
