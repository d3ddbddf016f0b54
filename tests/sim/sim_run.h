/*
 * sim_run - one job from its seed to its end: how bad it is, how it goes on, when it is stuck, what
 * must hold at the end.
 *
 * Thread:  one; no state between runs.
 */
#ifndef CADRE_TESTS_SIM_SIM_RUN_H
#define CADRE_TESTS_SIM_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_FAULTS_MIN = 5 }; /* in every job but a quiet one */

typedef struct {
    uint64_t seed;
    bool quiet;     /* messages suffer, and nothing else */
    bool in_series; /* a synchronous job whose steps one slot runs one after the other; nothing is
                       lost, as in one process */
    bool refuses_steps; /* a synchronous job whose shards end no step: it must end with the error */
    bool verbose;
} sim_options_t;

/* What a run was. */
typedef struct {
    uint64_t trace; /* two runs of one seed have the same */
    uint64_t events;
    uint64_t closures;
    uint64_t faults;
    uint64_t time_ms;
    uint64_t messages;
    uint64_t restores; /* of shards, the first one of each session included */
    uint64_t replayed; /* updates applied again after a restore */
    uint64_t taken;    /* results that closures had as arguments, each attempt anew */
    uint64_t found;    /* of them on the worker already */
    uint64_t lives;    /* of the coordinator */
    uint64_t committed;
    uint64_t given_up; /* checkpoints */
    uint64_t backups;  /* attempts beside a slow one, in the last life of the coordinator, */
    uint64_t won;      /* and those of them that ended their closure */
    uint64_t refused;  /* operations of the user, by a shard */
    uint64_t errors;
    uint64_t unserved;      /* closures that failed because no worker could run them */
    uint64_t full_steps;    /* updates that their step had no room for */
    uint64_t full_tables;   /* updates that a table had no room for */
    uint64_t rows_gone;     /* of tables, evicted by updates */
    uint64_t compensated;   /* late gradients, in parts; */
    uint64_t uncompensated; /* those whose values were kept no more; */
    uint64_t in_images;     /* and in images */
    uint64_t hopeless;      /* times that the job ended since no checkpoint could be read */
    uint64_t rotten;        /* files of tables that were damaged when they were needed */
    uint64_t resized;       /* times that the job was resumed with another number of ps */
    uint64_t went_back;     /* times that the job went back to a checkpoint */
    uint64_t row_updates;   /* parts of tables that updates or steps changed, */
    uint64_t row_steps;     /* of them by steps, */
    uint64_t keyless;       /* and by updates without keys of theirs */
    uint64_t chained;       /* those in committed files that left pages to a base */
    bool is_fatal;          /* the job ended because a shard refused to end a step */
} sim_summary_t;

/* Runs the job of a seed to its end; a broken invariant ends the process. */
sim_summary_t sim_run(const sim_options_t *options);

#endif
