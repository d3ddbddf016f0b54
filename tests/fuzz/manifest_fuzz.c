/*
 * Manifests as untrusted text, with the right hash, which anybody can compute: what is accepted can
 * be written again and is accepted again.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/checkpoint/manifest.h"

enum { HEAD_SIZE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    cadre_auto(cadre_free) char *text = cadre_calloc(size_bytes + HEAD_SIZE, 1);
    size_t head = (size_t)snprintf(text, HEAD_SIZE, "{\n  \"hash\": \"%016" PRIx64 "\",\n",
                                   XXH3_64bits(bytes, size_bytes));
    if (size_bytes > 0) {
        memcpy(text + head, bytes, size_bytes);
    }
    cadre_manifest_t manifest = {0};
    if (cadre_manifest_decode("manifest.json", text, head + size_bytes, &manifest) < 0) {
        return 0;
    }
    cadre_auto(cadre_free) char *again = NULL;
    size_t again_size = 0;
    cadre_manifest_t second = {0};
    if (cadre_manifest_encode(&manifest, &again, &again_size) == 0) {
        cadre_assert(cadre_manifest_decode("again", again, again_size, &second) == 0);
        cadre_assert(second.variable_count == manifest.variable_count &&
                     second.cut == manifest.cut);
        cadre_manifest_fini(&second);
    }
    cadre_manifest_find(&manifest, "w1");
    cadre_manifest_fini(&manifest);
    return 0;
}
