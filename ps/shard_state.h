/*
 * shard_state - the inside of shard, shared by its files: shard.c (session, control),
 * shard_create.c (partitions, from initial values or a checkpoint), shard_values.c (pull, push,
 * assign, probe) and shard_cut.c.
 */
#ifndef CADRE_PS_SHARD_STATE_H
#define CADRE_PS_SHARD_STATE_H

#include "common/u64_map.h"
#include "ps/applied_window.h"
#include "ps/shard.h"
#include "ps/update.h"

typedef struct {
    char name[CADRE_NAME_SIZE_MAX + 1]; /* of the variable */
    cadre_partition_t *partition;
    cadre_partition_t *image; /* what the cut holds of it; NULL: none is open, or it is younger */
    uint64_t size_bytes;      /* that it takes of the shard's */
    uint64_t push; /* number of the last push that named it, to find a partition named twice */
    bool retired;  /* its variable was dropped: */
    uint64_t last_checkpoint; /* the last one that holds it */
} cadre_shard_part_t;

struct cadre_shard {
    cadre_shard_options_t options;
    uint32_t index;
    uint64_t epoch;        /* 0: no session */
    uint64_t coordinator;  /* incarnation, the only one that is obeyed */
    uint64_t generation;   /* 0: no RESTORE yet, or the last one failed */
    uint64_t restored;     /* generation of the last RESTORE, failed or not: earlier ones are old */
    bool loading;          /* CREATE looks into the loader's checkpoint first */
    cadre_u64_map_t parts; /* by variable << 16 | partition */
    uint64_t dropped;      /* the highest id that a DROP named: none up to it is created any more */
    uint64_t size_bytes;   /* values and slots of all parts */
    cadre_chunk_pool_t *pool;
    cadre_applied_window_t *window;
    uint64_t assigned; /* sequence of the last ASSIGN */
    uint64_t counters[CADRE_PS_COUNTER_COUNT];
    uint64_t push_last;  /* counts pushes for cadre_shard_part_t.push */
    uint64_t checkpoint; /* of the last cut that was opened, or had ended */
    uint64_t confirmed;  /* the last that the coordinator named: workers may name later ones */
    uint64_t closed;     /* the last whose cut was closed */
    uint64_t cut;        /* of the open one: updates below it go to images too; 0: none is open */
    uint64_t cut_counters[CADRE_PS_COUNTER_COUNT]; /* as the images count */
    cadre_shard_snapshot_t *snapshot;
    cadre_shard_part_t *named[CADRE_PARTITIONS_PER_UPDATE_MAX]; /* by the question at hand */
    cadre_update_t update; /* that is being checked and applied */
};

/* A question and the way of its answer. */
typedef struct {
    cadre_plane_t plane;
    const cadre_task_t *from;
    cadre_message_t *message;
    cadre_outbox_t *outbox;
} cadre_shard_question_t;

/* --- shard.c --- */

/* An empty answer to `question`. */
cadre_message_t cadre_shard_answer(const cadre_shard_t *self,
                                   const cadre_shard_question_t *question,
                                   cadre_message_type_t type);

/* Sends an answer on the question's plane, unless none is awaited. */
void cadre_shard_send(const cadre_shard_question_t *question, cadre_message_t *answer);

/* REPLY with this thread's error text where `status` is a failure. */
void cadre_shard_reply(const cadre_shard_t *self, const cadre_shard_question_t *question,
                       int status);

/* CADRE_EFENCED unless the shard has a generation and it is this one. */
int cadre_shard_check_generation(const cadre_shard_t *self, uint64_t generation);

/* CADRE_ENOTFOUND. */
int cadre_shard_find(const cadre_shard_t *self, uint64_t variable, uint64_t partition,
                     cadre_shard_part_t **out);

/* --- shard_create.c --- */

int cadre_shard_create(cadre_shard_t *self, const cadre_create_message_t *create);
int cadre_shard_retire(cadre_shard_t *self, const cadre_retire_message_t *retire);
int cadre_shard_drop(cadre_shard_t *self, const cadre_drop_message_t *drop);

/* --- shard_values.c --- */

void cadre_shard_pull(cadre_shard_t *self, const cadre_shard_question_t *question);
void cadre_shard_push(cadre_shard_t *self, const cadre_shard_question_t *question);
void cadre_shard_assign(cadre_shard_t *self, const cadre_shard_question_t *question);
void cadre_shard_probe(cadre_shard_t *self, const cadre_shard_question_t *question);

/* --- shard_cut.c --- */

/* Opens the cut of `checkpoint`, unless that, or a later one, was opened before. */
void cadre_shard_open_cut(cadre_shard_t *self, uint64_t checkpoint, uint64_t cut);

/* The checkpoint is over, and those before it: no image of theirs is needed. */
void cadre_shard_end_cut(cadre_shard_t *self, uint64_t checkpoint);

void cadre_shard_snapshot(cadre_shard_t *self, const cadre_shard_question_t *question);

/* CADRE_ESTATE when that cut is not open. */
int cadre_shard_close_cut(cadre_shard_t *self, const cadre_close_cut_message_t *message);

#endif
