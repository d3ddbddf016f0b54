/* Descriptions of clusters, CADRE_CLUSTER and TF_CONFIG, as untrusted text, read as each role reads
 * them. */
#include <stdint.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/net/cluster_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static const char *const ROLES[] = {"coordinator", "ps", "worker"};
    cadre_auto(cadre_free) char *text = cadre_strndup((const char *)bytes, size_bytes);
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(ROLES); i++) {
        cadre_cluster_sources_t sources = {
            .cadre_cluster = i % 2 == 0 ? text : NULL,
            .tf_config = text,
            .role = ROLES[i / 2],
            .index = i == 3 ? "0" : NULL,
        };
        cadre_cluster_config_t config;
        if (cadre_cluster_config_read(&sources, &config) == 0) {
            cadre_cluster_config_fini(&config);
        }
    }
    return 0;
}
