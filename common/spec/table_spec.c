#include "common/spec/table_spec.h"

#include <math.h>

#include "common/base/limits.h"
#include "common/base/status.h"

/* Makes the choice of a shard independent of what shards do with the mixed key themselves. */
#define SHARD_SALT UINT64_C(0x9E3779B97F4A7C15)

const char *
cadre_table_policy_text(cadre_table_policy_t policy)
{
    switch (policy) {
    case CADRE_TABLE_REFUSE:
        return "refuse";
    case CADRE_TABLE_EVICT_LRU:
        return "lru";
    case CADRE_TABLE_EVICT_LFU:
        return "lfu";
    }
    return "?";
}

/* Returns a spec that says nothing but the number of columns. */
cadre_table_spec_t
cadre_table_spec(uint32_t dim)
{
    cadre_table_spec_t self = {.dim = dim, .storage = CADRE_F32, .when_full = CADRE_TABLE_REFUSE};
    self.initializer.kind = CADRE_INITIALIZER_ZEROS;
    self.optimizer = (cadre_optimizer_spec_t){.kind = CADRE_OPTIMIZER_SGD};
    self.optimizer.parameters[CADRE_LEARNING_RATE] = 0.01;
    return self;
}

/* Checks that first values are of a kind that does not depend on a number of rows. */
static int
check_initializer(const cadre_initializer_spec_t *self)
{
    switch (self->kind) {
    case CADRE_INITIALIZER_ZEROS:
    case CADRE_INITIALIZER_CONSTANT:
    case CADRE_INITIALIZER_UNIFORM:
    case CADRE_INITIALIZER_NORMAL:
    case CADRE_INITIALIZER_TRUNCATED_NORMAL:
        return cadre_initializer_spec_check(self, CADRE_F32, 1);
    case CADRE_INITIALIZER_GLOROT_UNIFORM:
    case CADRE_INITIALIZER_GLOROT_NORMAL:
    case CADRE_INITIALIZER_HE_UNIFORM:
    case CADRE_INITIALIZER_HE_NORMAL:
    case CADRE_INITIALIZER_LECUN_UNIFORM:
    case CADRE_INITIALIZER_LECUN_NORMAL:
    case CADRE_INITIALIZER_IDENTITY:
        break;
    }
    return cadre_fail(CADRE_EINVALID,
                      "initializer %s depends on the number of rows, which a table does not "
                      "have: " CADRE_TABLE_INITIALIZERS " do not",
                      cadre_initializer_kind_text(self->kind));
}

/* Checks that the optimizer is one of those that rows have. */
static int
check_optimizer(const cadre_table_spec_t *self)
{
    const cadre_optimizer_spec_t *optimizer = &self->optimizer;
    switch (optimizer->kind) {
    case CADRE_OPTIMIZER_SGD:
    case CADRE_OPTIMIZER_MOMENTUM:
    case CADRE_OPTIMIZER_ADAGRAD:
    case CADRE_OPTIMIZER_ADAM:
    case CADRE_OPTIMIZER_FTRL:
        break;
    case CADRE_OPTIMIZER_NESTEROV:
    case CADRE_OPTIMIZER_RMSPROP:
    case CADRE_OPTIMIZER_ADAMW:
    case CADRE_OPTIMIZER_ADD:
    case CADRE_OPTIMIZER_DELAYED_NESTEROV:
        return cadre_fail(CADRE_EINVALID,
                          "optimizer %s is not for tables: sgd, momentum, adagrad, adam, ftrl are",
                          cadre_optimizer_kind_text(optimizer->kind));
    }

    if (optimizer->average_momentum > 0) {
        return cadre_fail(CADRE_EINVALID, "a table keeps no average of its rows");
    }
    if (optimizer->delay_compensation > 0) {
        return cadre_fail(CADRE_EINVALID, "a table does not keep the rows that were pulled, which "
                                          "delay_compensation needs");
    }
    if (self->row_wise && optimizer->kind != CADRE_OPTIMIZER_ADAGRAD) {
        return cadre_fail(CADRE_EINVALID, "row_wise is for adagrad, not for %s",
                          cadre_optimizer_kind_text(optimizer->kind));
    }
    return cadre_optimizer_spec_check(optimizer, CADRE_F32);
}

/* Checks when rows come and go. */
static int
check_rows(const cadre_table_spec_t *self)
{
    if (self->admit_after > CADRE_TABLE_ADMIT_MAX) {
        return cadre_fail(CADRE_EINVALID, "admit_after is %u, at most %d", self->admit_after,
                          CADRE_TABLE_ADMIT_MAX);
    }
    if (self->rows_max > CADRE_TABLE_ROWS_MAX) {
        return cadre_fail(CADRE_EINVALID, "rows_max is %llu, at most %d",
                          (unsigned long long)self->rows_max, CADRE_TABLE_ROWS_MAX);
    }
    if (self->when_full < CADRE_TABLE_REFUSE || self->when_full > CADRE_TABLE_EVICT_LFU) {
        return cadre_fail(CADRE_EINVALID, "when_full is %d, which is no policy",
                          (int)self->when_full);
    }
    if (self->when_full != CADRE_TABLE_REFUSE && self->rows_max == 0) {
        return cadre_fail(CADRE_EINVALID, "when_full needs rows_max");
    }
    return 0;
}

/* Checks a number that may be 0, but neither below nor infinite. */
static int
check_number(const char *name, double value)
{
    if (!(value >= 0) || isinf(value)) {
        return cadre_fail(CADRE_EINVALID, "%s is %g, not a number from 0 on", name, value);
    }
    return 0;
}

int
cadre_table_spec_check(const cadre_table_spec_t *self)
{
    if (self->dim < 1 || self->dim > CADRE_TABLE_DIM_MAX) {
        return cadre_fail(CADRE_EINVALID, "dim is %u, not 1 to %d", self->dim, CADRE_TABLE_DIM_MAX);
    }
    if (self->storage != CADRE_F32 && self->storage != CADRE_BF16) {
        return cadre_fail(CADRE_EDTYPE, "rows of a table are stored as f32 or bf16");
    }

    int status = check_initializer(&self->initializer);
    if (status < 0) {
        return status;
    }
    status = check_optimizer(self);
    if (status < 0) {
        return status;
    }
    status = check_number("group_lasso", self->group_lasso);
    if (status < 0) {
        return status;
    }
    status = check_number("norm_min", self->norm_min);
    if (status < 0) {
        return status;
    }
    return check_rows(self);
}

uint64_t
cadre_table_mix(uint64_t key)
{
    key = (key ^ key >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    key = (key ^ key >> 27) * UINT64_C(0x94D049BB133111EB);
    return key ^ key >> 31;
}

/* Multiplies the upper half of a hash by the number of shards: the upper half of the product is
 * even over the shards. */
uint32_t
cadre_table_shard(uint64_t key, uint32_t shard_count)
{
    return (uint32_t)((cadre_table_mix(key ^ SHARD_SALT) >> 32) * shard_count >> 32);
}
