/*
 * Synchronous steps on clusters of 1, 2 and 3 ps and 1, 2 and 4 workers, left alone and with ps,
 * workers and the coordinator killed at random: what they compute must be, bit for bit and after
 * every MARK_CLOSURES closures, what one process computes that has no ps and no worker beside it.
 * Of the table from which rows go it must be what one worker computes with as many ps.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/chaos/kills.h"
#include "tests/chaos/marks.h"

enum {
    PS_MAX = 3,
    SHAPES = 9,
    LEASE_MS = 3000,
    CHECKPOINT_MS = 100,
    QUIET_MARKS = 10, /* of a job that is left alone, at least */
};

typedef struct {
    int ps;
    int workers;
} shape_t;

static const shape_t shapes[SHAPES] = {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2},
                                       {2, 4}, {3, 1}, {3, 2}, {3, 4}};

/* A job that has ended: its marks, the number of the last, and who was killed. */
typedef struct {
    shape_t shape;
    bool is_killed; /* some of its processes were */
    marks_t *marks;
    uint64_t last;
    uint64_t resumed; /* starts of the job that took up a checkpoint */
    int killed[FIELD_ROLE_COUNT];
} trained_t;

/* --- jobs --- */

/* Opens a job of a shape; of none it is one process. Its marks outlive the field. */
static void
open_job(field_t *field, shape_t shape, trained_t *trained)
{
    const field_options_t options = {
        .ps = shape.ps,
        .workers = shape.workers,
        .job = "../tests/chaos_sync_job",
        .checkpoints = shape.ps > 0,
        .settings = {.seed = 4711,
                     .lease_ms = LEASE_MS,
                     .checkpoint_every_ms = shape.ps > 0 ? CHECKPOINT_MS : 0,
                     .local = shape.ps == 0}};
    *trained = (trained_t){.shape = shape};
    field_prepare(field, &options);
    cadre_auto(cadre_free) char *path = scratch_path(&field->scratch, "marks");
    snprintf(field->board->marks, sizeof(field->board->marks), "%s", path);
    trained->marks = marks_map(path, true);
    require(trained->marks != NULL, path);
    field_begin(field);
}

static void
close_job(field_t *field, trained_t *trained)
{
    board_t last;
    field_close(field, &last);
    trained->last = last.marked;
    trained->resumed = last.resumed;
    require(atomic_load(&trained->marks->marks[trained->last].is_there), "a last mark");
}

static bool
has_marked(field_t *field, void *context)
{
    const uint64_t *marks = context;
    return field->board->marked >= *marks;
}

/* Waits until the job has got to a mark, as long as it goes on. */
static void
await_mark(field_t *field, uint64_t mark)
{
    for (uint64_t next = field->board->marked + 1; next <= mark; next++) {
        field_await(field, "a mark", has_marked, &next);
    }
}

static trained_t
train_alone(shape_t shape, uint64_t marks)
{
    field_t field;
    trained_t trained;
    open_job(&field, shape, &trained);
    await_mark(&field, marks);
    close_job(&field, &trained);
    return trained;
}

/* Trains until so many of its processes were killed. */
static trained_t
train_under_fire(chaos_run_t *run, shape_t shape, int kills)
{
    static const field_role_t roles[] = {FIELD_PS,     FIELD_PS,     FIELD_PS, FIELD_WORKER,
                                         FIELD_WORKER, FIELD_WORKER, FIELD_JOB};
    field_t field;
    trained_t trained;
    open_job(&field, shape, &trained);
    trained.is_killed = true;
    for (int i = 0; i < kills; i++) {
        const field_role_t role = roles[chaos_draw(run, (int)CADRE_COUNT_OF(roles))];
        kills_one(run, &field, role);
        trained.killed[role]++;
        kills_pause(run, &field, role);
    }
    close_job(&field, &trained);
    return trained;
}

/* --- what they have computed --- */

/* Ends the test where two lists of floats are not equal bit for bit. */
static void
expect_equal(const trained_t *job, uint64_t mark, const char *name, const float *one,
             const float *other, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&one[i], &other[i], sizeof(*one)) != 0) {
            fprintf(stderr,
                    "chaos: %d ps, %d workers, %s, after %" PRIu64
                    " closures: number %zu of %s is %a, not %a\n",
                    job->shape.ps, job->shape.workers, job->is_killed ? "killed" : "left alone",
                    mark * MARK_CLOSURES, i, name, (double)one[i], (double)other[i]);
            require(false, "weights that are equal bit for bit");
        }
    }
}

#define EXPECT_EQUAL(job, mark, name, one, other)                                                  \
    expect_equal(job, mark, name, one, other, CADRE_COUNT_OF(one))

/* Compares all marks that a job has made; how many these are. */
static uint64_t
compare(const trained_t *job, const trained_t *reference, const trained_t *reference_of_few)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i <= job->last; i++) {
        const mark_t *mark = &job->marks->marks[i];
        const mark_t *wanted = &reference->marks->marks[i];
        const mark_t *few = &reference_of_few->marks->marks[i];
        if (!atomic_load(&mark->is_there)) {
            continue; /* its job was killed before it had read all, and was resumed behind it */
        }
        require(atomic_load(&wanted->is_there) && atomic_load(&few->is_there),
                "a mark to compare with");
        EXPECT_EQUAL(job, i, "first", mark->weights.first, wanted->weights.first);
        EXPECT_EQUAL(job, i, "second", mark->weights.second, wanted->weights.second);
        EXPECT_EQUAL(job, i, "rows", mark->weights.rows, wanted->weights.rows);
        EXPECT_EQUAL(job, i, "rare", mark->weights.rare, wanted->weights.rare);
        EXPECT_EQUAL(job, i, "few", mark->few.few, few->few.few);
        count++;
    }
    return count;
}

/* Rows of the table go: it is not what it would be with other ps. */
static bool
is_same_few(const trained_t *one, const trained_t *other, uint64_t mark)
{
    return memcmp(&one->marks->marks[mark].few, &other->marks->marks[mark].few,
                  sizeof(mark_few_t)) == 0;
}

/* --- the test --- */

/* The jobs of one run: those under fire by shape, and what they are compared with. */
typedef struct {
    trained_t killed[SHAPES];
    int count;
    trained_t one_process;
    trained_t of_ps[PS_MAX + 1]; /* one worker and so many ps, left alone */
} campaign_t;

static uint64_t
last_mark(const campaign_t *self, int ps)
{
    uint64_t last = QUIET_MARKS;
    for (int i = 0; i < self->count; i++) {
        const trained_t *job = &self->killed[i];
        last = (ps == 0 || job->shape.ps == ps) && job->last > last ? job->last : last;
    }
    return last;
}

static void
kill_all_shapes(chaos_run_t *run, campaign_t *self)
{
    int chosen[SHAPES];
    int count = 0;
    for (int i = 0; i < SHAPES; i++) {
        const bool is_wanted = run->shape_ps == 0 || (shapes[i].ps == run->shape_ps &&
                                                      shapes[i].workers == run->shape_workers);
        chosen[count] = i;
        count += is_wanted;
    }
    require(count > 0, "a shape of 1 to 3 ps and 1, 2 or 4 workers");
    for (int i = 0; i < count; i++) {
        const int kills = (i + 1) * run->count / count - i * run->count / count;
        self->killed[self->count++] = train_under_fire(run, shapes[chosen[i]], kills);
    }
}

static void
train_references(campaign_t *self)
{
    self->one_process = train_alone((shape_t){0, 0}, last_mark(self, 0));
    for (int i = 0; i < self->count; i++) {
        const int ps = self->killed[i].shape.ps;
        if (!self->of_ps[ps].marks) {
            self->of_ps[ps] = train_alone((shape_t){ps, 1}, last_mark(self, ps));
            compare(&(trained_t){.shape = {ps, 1},
                                 .marks = self->of_ps[ps].marks,
                                 .last = last_mark(self, ps)},
                    &self->one_process, &self->of_ps[ps]);
        }
    }
}

static void
say(chaos_run_t *run, const campaign_t *self, uint64_t compared)
{
    int resumed = 0;
    chaos_say(run, "%d kills, of (ps, workers, coordinator) by ps x workers:", run->count);
    for (int i = 0; i < self->count; i++) {
        const trained_t *job = &self->killed[i];
        chaos_say(run, " %dx%d (%d, %d, %d)", job->shape.ps, job->shape.workers,
                  job->killed[FIELD_PS], job->killed[FIELD_WORKER], job->killed[FIELD_JOB]);
        resumed += (int)job->resumed;
    }
    chaos_say(
        run,
        "; %d starts resumed; two dense variables and three tables equal bit for bit, at %" PRIu64
        " marks of %d closures, to one process, and left alone, too",
        resumed, compared, MARK_CLOSURES);
    chaos_number(run, "kills", run->count);
    chaos_number(run, "resumed", resumed);
    chaos_number(run, "marks", (double)compared);
}

void
chaos_sync_kill(chaos_run_t *run)
{
    campaign_t self = {.count = 0};
    uint64_t compared = 0;
    kill_all_shapes(run, &self);
    train_references(&self);
    for (int i = 0; i < self.count; i++) {
        const trained_t *killed = &self.killed[i];
        trained_t quiet = train_alone(killed->shape, QUIET_MARKS);
        quiet.last = QUIET_MARKS;
        compared += compare(&quiet, &self.one_process, &self.of_ps[killed->shape.ps]);
        compared += compare(killed, &self.one_process, &self.of_ps[killed->shape.ps]);
        marks_unmap(&quiet.marks);
    }
    /* The table does lose rows, or it would not show what it is there for. */
    for (int ps = 1; ps <= PS_MAX; ps++) {
        require(!self.of_ps[ps].marks ||
                    is_same_few(&self.one_process, &self.of_ps[ps], QUIET_MARKS) == (ps == 1),
                "other rows with another number of ps, and the same with as many");
    }
    say(run, &self, compared);
}
