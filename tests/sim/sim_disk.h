/*
 * sim_disk - the checkpoint directory, in memory: drafts, the shards' files in them, checkpoints.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * A file is the shard's snapshot as it was taken, kept alive by its references, and beside it the
 * oracle's copy of what the shard held at that moment. It outlives every process. What a restored
 * shard reads goes through the same interface as on a real disk (ps/core/loader.h), by element
 * range; of tables by pages, from a file to its base.
 */
#ifndef CADRE_TESTS_SIM_SIM_DISK_H
#define CADRE_TESTS_SIM_SIM_DISK_H

#include "common/base/random.h"
#include "ps/core/loader.h"
#include "ps/core/shard.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_pages.h"

typedef struct {
    cadre_shard_snapshot_t *snapshot; /* NULL: not there */
    sim_pages_t *tables;              /* what the snapshot had of tables */
    size_t table_count;
    sim_state_t *state;
    sim_state_t *written; /* what it was before it was dealt out anew (sim_resize.h); NULL: that */
    uint64_t hash;        /* of its own, not of its content */
} sim_file_t;

/* What can be read of a damaged file with tables. */
typedef enum {
    SIM_TEAR_DENSE = 1,    /* parts of dense variables */
    SIM_TEAR_PAGE = 2,     /* one page of each table */
    SIM_TEAR_DESCRIBED = 4 /* what its tables are */
} sim_tear_t;

typedef struct {
    uint64_t id;
    char path[32];
    cadre_manifest_t *manifest; /* NULL: a draft */
    uint32_t holds;             /* variables of which its files have parts: bits id - 1 */
    uint32_t damaged;           /* bits of the shards whose file is, or a base of it; the one before
                                   is sound, unless that is this base */
    uint32_t tears;             /* how a file with tables is damaged: sim_tear_t */
    uint64_t number;            /* of its draft */
    uint64_t found;  /* drafts that there were when a shard found damage in it; 0: none */
    uint32_t opened; /* times that a shard has opened it */
    bool unreadable; /* not one of its files can be read, nor its manifest */
    bool removed;    /* only who had opened it knows its manifest still */
    sim_file_t files[SIM_SHARDS_MAX];
} sim_checkpoint_t;

typedef struct {
    sim_check_t *check;
    cadre_random_t *random;
    uint32_t keep;                  /* checkpoints */
    uint32_t damage_every;          /* commits; 0: never */
    sim_checkpoint_t **checkpoints; /* drafts and removed ones included, oldest first */
    size_t count;
    const sim_checkpoint_t *doubtful; /* reads of it may fail: there is another; or NULL */
    uint64_t made;                    /* drafts, ever */
    uint64_t files;                   /* written, ever */
} sim_disk_t;

/* What a shard reads with. */
typedef struct {
    sim_disk_t *disk;
    cadre_random_t *random;
    const uint32_t *fails; /* chance that a read of a doubtful one fails, in 10,000 */
    const uint32_t *rots;  /* and that a file with tables is damaged from then on */
    char path[32];         /* of the one that is open; "" for none */
} sim_loader_t;

/* Whether files with tables may turn out to be damaged in this world: in one of five, which has
 * tables and many checkpoints. */
bool sim_is_rotten(uint64_t seed);

void sim_disk_fini(sim_disk_t *self);

/* A draft with a path of its own; it begins by removing every other draft. */
sim_checkpoint_t *sim_disk_draft(sim_disk_t *self, uint64_t id);

/* Removes every draft. */
void sim_disk_clean(sim_disk_t *self);

/* The newest checkpoint that was not removed, or the newest such one without damage; or NULL. */
sim_checkpoint_t *sim_disk_newest(const sim_disk_t *self, bool sound);

/* The draft or checkpoint at a path, or NULL. */
sim_checkpoint_t *sim_disk_find(const sim_disk_t *self, const char *path);

/* Writes a shard's file into the draft at snapshot->directory; takes both. CADRE_EIO when there is
 * no such draft any more. `hash` becomes what the manifest must say. */
int sim_disk_write(sim_disk_t *self, cadre_shard_snapshot_t **snapshot_p, sim_state_t **state_p,
                   uint64_t *hash);

/* Removes what is older than `oldest` and than the newest `keep`, but for the bases of what stays.
 */
void sim_disk_retain(sim_disk_t *self, uint64_t oldest);

/* Makes the draft `id` the newest checkpoint; takes `manifest`, which must say
 * what its files are. CADRE_EIO when there is no such draft any more. */
int sim_disk_commit(sim_disk_t *self, uint64_t id, cadre_manifest_t **manifest_p,
                    const char **path);

cadre_loader_t sim_disk_loader(sim_loader_t *context);

#endif
