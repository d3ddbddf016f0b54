/*
 * shard_state - the inside of shard, shared by its files: shard.c (session, control),
 * shard_create.c (partitions), shard_load.c (what comes from a checkpoint), shard_values.c (pull,
 * push, assign, probe) and shard_cut.c.
 */
#ifndef CADRE_PS_CORE_SHARD_STATE_H
#define CADRE_PS_CORE_SHARD_STATE_H

#include "common/base/u64_map.h"
#include "ps/core/applied_window.h"
#include "ps/core/intake.h"
#include "ps/core/shard.h"
#include "ps/core/update.h"

typedef struct cadre_shard_part {
    char name[CADRE_NAME_SIZE_MAX + 1]; /* of the variable */
    cadre_partition_t *partition;
    cadre_partition_t *image; /* what the cut holds of it; NULL: none is open, or it is younger */
    uint64_t size_bytes;      /* that it takes of the shard's */
    uint64_t push; /* number of the last push that named it, to find a partition named twice */
    bool retired;  /* its variable was dropped: */
    uint64_t last_checkpoint;      /* the last one that holds it */
    struct cadre_shard_part *next; /* of the same variable */
} cadre_shard_part_t;

/* Who is answered when a load comes back. */
typedef struct {
    cadre_task_t from;
    uint64_t request;
} cadre_shard_asker_t;

/* A checkpoint that is being opened. */
typedef struct {
    uint64_t load; /* number; 0: none is */
    cadre_shard_asker_t asker;
} cadre_shard_opening_t;

/* A partition that is being loaded. */
typedef struct {
    uint64_t load; /* number */
    cadre_shard_asker_t asker;
    cadre_partition_spec_t spec;
    cadre_shard_part_t *part; /* its partition is the load's */
} cadre_shard_loading_t;

struct cadre_shard {
    cadre_shard_options_t options;
    uint32_t index;
    uint64_t epoch;       /* 0: no session */
    uint64_t coordinator; /* incarnation, the only one that is obeyed */
    uint64_t generation;  /* 0: no RESTORE yet, or the last one failed */
    uint64_t restored;    /* generation of the last RESTORE, failed or not: earlier ones are old */
    bool loading;         /* CREATE looks into the checkpoint of the last RESTORE first */
    cadre_shard_opening_t opening;
    cadre_u64_map_t loading_parts;   /* as `parts` */
    cadre_checkpoint_load_t **loads; /* [load_count], of which the first load_taken were taken */
    size_t load_count;
    size_t load_taken;
    uint64_t load_last;        /* number of the last one that was made */
    uint64_t loads_from;       /* those with a lower number are not wanted any more */
    cadre_u64_map_t parts;     /* by variable << 16 | partition */
    cadre_u64_map_t variables; /* the first part of each; the others follow by `next` */
    uint64_t dropped;    /* the highest id that a DROP named: none up to it is created any more */
    uint64_t size_bytes; /* values and slots of all parts */
    cadre_chunk_pool_t *pool;
    cadre_applied_window_t *window;
    uint64_t assigned; /* sequence of the last ASSIGN */
    uint64_t refused;  /* of the last that was refused: up to there PROBE cannot tell */
    uint64_t counters[CADRE_PS_COUNTER_COUNT];
    uint64_t push_last;  /* counts pushes for cadre_shard_part_t.push */
    uint64_t checkpoint; /* of the last cut that was opened, or had ended */
    uint64_t confirmed;  /* the last that the coordinator named: workers may name later ones */
    uint64_t closed;     /* the last whose cut was closed */
    uint64_t cut;        /* of the open one: updates below it go to images too; 0: none is open */
    uint64_t cut_counters[CADRE_PS_COUNTER_COUNT]; /* as the images count */
    cadre_shard_snapshot_t *snapshot;
    cadre_intake_t *intake;
    uint64_t now_ms;            /* as it was told last */
    cadre_shard_part_t **named; /* by the question at hand */
    size_t named_capacity;
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

void cadre_shard_create(cadre_shard_t *self, const cadre_shard_question_t *question);

/* The part, which has its partition, is served from now on. */
void cadre_shard_add_part(cadre_shard_t *self, cadre_shard_part_t *part);

int cadre_shard_retire(cadre_shard_t *self, const cadre_retire_message_t *retire);
int cadre_shard_drop(cadre_shard_t *self, const cadre_drop_message_t *drop, cadre_outbox_t *outbox);

/* --- shard_load.c --- */

/* Has the checkpoint of a RESTORE opened; that is answered then, and sets the generation. */
void cadre_shard_open_checkpoint(cadre_shard_t *self, const cadre_shard_question_t *question);

/* Has a RESTORE that was said again answered when its checkpoint is open; false when that is not
 * being opened. */
bool cadre_shard_await_checkpoint(cadre_shard_t *self, const cadre_shard_question_t *question);

/* Has the part's partition, which is blank, filled from the checkpoint; takes the part. The CREATE
 * is answered then. */
void cadre_shard_load_part(cadre_shard_t *self, const cadre_shard_question_t *question,
                           cadre_shard_part_t **part_p);

/* The CREATE was said again. */
void cadre_shard_ask_again(cadre_shard_loading_t *loading, const cadre_shard_question_t *question);

/* Whether this request of whoever asks waits for a load. */
bool cadre_shard_is_loading(const cadre_shard_t *self, const cadre_shard_question_t *question,
                            uint64_t request);

/* Gives up what is being loaded of one variable, whose CREATEs are refused, or everything. */
void cadre_shard_drop_loads(cadre_shard_t *self, uint64_t variable, cadre_outbox_t *outbox);
void cadre_shard_forget_loads(cadre_shard_t *self);

/* --- shard_values.c --- */

void cadre_shard_pull(cadre_shard_t *self, const cadre_shard_question_t *question);
void cadre_shard_push(cadre_shard_t *self, const cadre_shard_question_t *question);
void cadre_shard_assign(cadre_shard_t *self, const cadre_shard_question_t *question);
void cadre_shard_reserve(cadre_shard_t *self, const cadre_shard_question_t *question);
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
