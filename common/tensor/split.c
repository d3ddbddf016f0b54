#include "common/tensor/split.h"

#include "common/base/assert.h"

/* Returns the first row of a part. The first `longer` parts have one row more than the others. */
int64_t
cadre_split_first(int64_t rows, int64_t parts, int64_t part)
{
    cadre_assert(parts >= 1 && part >= 0 && part <= parts);
    int64_t longer = rows % parts;
    return part * (rows / parts) + (part < longer ? part : longer);
}

int64_t
cadre_split_rows(int64_t rows, int64_t parts, int64_t part)
{
    if (parts == 1) { /* as most are: divisions take long */
        cadre_assert(part == 0);
        return rows;
    }
    return cadre_split_first(rows, parts, part + 1) - cadre_split_first(rows, parts, part);
}

/* Returns the part that has a row: the longer parts come first, the others have a row less. */
int64_t
cadre_split_part(int64_t rows, int64_t parts, int64_t row)
{
    cadre_assert(parts >= 1 && row >= 0 && row < rows);
    int64_t shorter = rows / parts;
    int64_t longer = rows % parts;
    int64_t in_longer = longer * (shorter + 1);
    return row < in_longer ? row / (shorter + 1) : longer + (row - in_longer) / shorter;
}
