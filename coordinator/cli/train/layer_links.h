/*
 * layer_links - what the layers of a list take: a graph without circles, written in order.
 *
 * A layer takes what the one before it makes, and the first one the row. Three keys say otherwise,
 * of any layer: "name" is what later layers know it by, "from" names what it takes (earlier layers,
 * or "input", the row as model.input shapes it), and "columns" cuts what it takes out of the row.
 *
 * Thread:  any; the function keeps no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_LAYER_LINKS_H
#define CADRE_COORDINATOR_CLI_TRAIN_LAYER_LINKS_H

#include <jansson.h>
#include <stddef.h>

#include "coordinator/cli/train/json_source.h"
#include "coordinator/cli/train/layer.h"

/* Reads these keys of all `count` layers of the array at /model/layers into `list`, whose types are
 * there. CADRE_ECONFIG, with the place, for a name that is none or is there twice, for one that no
 * earlier layer has, for columns that are none, for more or fewer inputs than the type takes, and
 * for a layer but the last whose output nothing takes. */
int cadre_layer_links_read(const cadre_json_source_t *source, const json_t *layers,
                           cadre_layer_t *list, size_t count);

#endif
