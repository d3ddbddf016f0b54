/*
 * layer_links - reads which inputs each layer of a list has. The layers form an acyclic graph,
 * written in topological order.
 *
 * By default a layer takes the output of the layer before it, and the first layer the row. Three
 * keys change that: "name" gives a layer a name, "from" lists the names of its inputs (earlier
 * layers, or "input": the row in the shape of model.input), and "columns" makes its input a range
 * of the numbers of the row: by position, or by the names that data.train gives its columns.
 *
 * Thread:  any; the function keeps no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_LAYER_LINKS_H
#define CADRE_COORDINATOR_CLI_TRAIN_LAYER_LINKS_H

#include <jansson.h>
#include <stddef.h>

#include "coordinator/cli/train/json_source.h"
#include "coordinator/cli/train/layer.h"

/* Reads the keys name, from and columns of all `count` layers of the array at /model/layers into
 * `list`, where the types of the layers must be set. Fails with CADRE_ECONFIG and the place in the
 * file for an invalid or duplicate name, a name that no earlier layer has, invalid columns, more or
 * fewer inputs than the type takes, and a layer, other than the last, whose output is not used. */
int cadre_layer_links_read(const cadre_json_source_t *source, const json_t *layers,
                           cadre_layer_t *list, size_t count);

#endif
