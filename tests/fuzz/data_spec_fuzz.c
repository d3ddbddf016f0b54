/* Descriptions of datasets as untrusted text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/spec/data_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    cadre_data_spec_t spec;
    if (cadre_data_spec_decode((const char *)bytes, size_bytes, &spec) == 0) {
        cadre_assert(spec.paths.count > 0);
        for (size_t i = 0; i < spec.paths.count; i++) {
            const char *path = spec.paths.items[i];
            cadre_assert(*path && strlen(path) <= CADRE_DATA_PATH_SIZE_MAX);
        }
        cadre_assert((spec.labels_paths.count > 0) ==
                     cadre_data_format_has(spec.format, CADRE_DATA_LABELS_FILE));
        cadre_assert(spec.held_out >= 0 && spec.held_out < 1);
        cadre_data_spec_fini(&spec);
    }
    return 0;
}
