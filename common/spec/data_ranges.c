#include "common/spec/data_ranges.h"

#include "common/base/bounds.h"

int64_t
cadre_data_range_position(int64_t rows, int64_t batch_size, int64_t ranges, int64_t batch)
{
    const int64_t whole = rows / batch_size;
    if (batch >= whole) {
        return batch * batch_size;
    }
    const int64_t range = batch % ranges;
    const int64_t begin = range * (whole / ranges) + cadre_min_i64(range, whole % ranges);
    return (begin + batch / ranges) * batch_size;
}

int64_t
cadre_data_range_of(int64_t rows, int64_t ranges, bool is_shuffled, int64_t first, int64_t count)
{
    if (!is_shuffled) {
        return first / CADRE_DATA_PIECE_ROWS % ranges;
    }

    /* The first `more` ranges have a batch more than the others. */
    const int64_t whole = rows / count;
    const int64_t each = whole / ranges;
    const int64_t more = whole % ranges;
    const int64_t batch = first / count;
    if (batch < more * (each + 1)) {
        return batch / (each + 1);
    }
    return each > 0 ? cadre_min_i64(more + (batch - more * (each + 1)) / each, ranges - 1)
                    : ranges - 1;
}
