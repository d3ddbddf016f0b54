/*
 * partition_spec - what a CREATE says that a partition is: which rows of which variable, or that it
 * is a part of a table; what rows begin with, how gradients change them.
 *
 * Owner:   whoever holds it; plain data. Thread: any one.
 */
#ifndef CADRE_PS_CORE_PARTITION_SPEC_H
#define CADRE_PS_CORE_PARTITION_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/spec/initializer_spec.h"
#include "common/spec/optimizer_spec.h"
#include "common/spec/table_spec.h"
#include "common/tensor/tensor.h"
#include "common/wire/message.h"

typedef struct {
    uint64_t variable;  /* id */
    uint64_t partition; /* index within the variable */
    cadre_dtype_t dtype;
    cadre_dtype_t wire; /* dtype in which values and gradients travel; 0: `dtype` */
    int rank;
    int64_t shape[CADRE_RANK_MAX]; /* shape of the whole variable */
    int64_t first_row; /* of this partition, along axis 0; a variable of rank 0 has one row */
    int64_t rows;
    cadre_initializer_spec_t initializer;
    cadre_optimizer_spec_t optimizer;

    /* Of a table, whose rows are found by key: `shape` is [dim], there is no first row and no
     * number of rows, and partition k of `partitions` is the part of shard k. `table` says the rest
     * (cadre_partition_spec_table); its dim is 0 for a dense variable. */
    uint64_t partitions;
    cadre_table_spec_t table;
} cadre_partition_spec_t;

/* Checks a CREATE and fills in the spec. Fails with CADRE_EINVALID for a bad name, number,
 * initializer or optimizer, CADRE_EDTYPE for a bad dtype, CADRE_ESHAPE for a bad shape. */
int cadre_partition_spec_decode(cadre_partition_spec_t *self, const cadre_create_message_t *create);

bool cadre_partition_spec_equal(const cadre_partition_spec_t *left,
                                const cadre_partition_spec_t *right);

/* Takes over the schedule of `other` where it goes on behind this one's last boundary. Returns
 * false, and changes nothing, when the specs differ in anything but schedules of which one goes on
 * where the other ends. */
bool cadre_partition_spec_take_longer(cadre_partition_spec_t *self,
                                      const cadre_partition_spec_t *other);

/* Computes the bytes that the partition will take: values, slots, the copy in the wire dtype, and
 * with delay compensation the versions that are kept. Fails with CADRE_ETOOLARGE when the values do
 * not fit one message. */
int cadre_partition_spec_measure(const cadre_partition_spec_t *self, uint64_t *size_bytes);

bool cadre_partition_spec_is_table(const cadre_partition_spec_t *self);

/* Returns how the rows of a table are kept, with its initializer and optimizer. */
cadre_table_spec_t cadre_partition_spec_table(const cadre_partition_spec_t *self);

/* Returns the number of a partition within its shard, `variable` being at most UINT32_MAX. */
uint64_t cadre_partition_key(uint64_t variable, uint64_t partition);

#endif
