/*
 * table_checkpoint_test - tables through checkpoint files: random updates, assignments, cuts with
 * stragglers, whole checkpoints and such that leave out what has not changed, restores on other
 * numbers of shards, beside a plain map; and what is damaged is found anywhere in a chain.
 */
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/random.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_draft.h"
#include "common/checkpoint/table_rows.h"
#include "ps/checkpoint_loader.h"
#include "ps/snapshot_writer.h"
#include "tests/ps/table_fixture.h"

TestSuite(table_checkpoint, .timeout = 240);

enum {
    SHARDS_MAX = 3,
    KEYS = 60000,
    SPAN = 500, /* keys of an update are near to each other, so that pages stay as they were */
    BELOW = 4,  /* updates of a cut that come after it was opened */
};

static const cadre_folders_t ANYWHERE = {.any = true};

/* What one key should have. */
typedef struct {
    bool has_row;
    float values[DIM];
} row_t;

typedef struct {
    char directory[32];
    cadre_checkpoint_directory_t *checkpoints;
    uint64_t incarnation; /* of all ps */
    uint64_t admit_after;
    uint32_t shard_count;
    fixture_t shards[SHARDS_MAX];
    cadre_checkpoint_loader_t files[SHARDS_MAX];
    uint64_t changes;    /* of each kind while a cut is open, at most BELOW */
    uint64_t update;     /* the next id */
    uint64_t sequence;   /* of the last ASSIGN */
    uint64_t checkpoint; /* the last one that was committed */
    uint64_t cut;        /* that is open; 0: none */
    row_t *live;         /* [KEYS] */
    row_t *image;        /* what is below the open cut, then the last checkpoint */
    cadre_random_t random;
} cluster_t;

static uint64_t
draw(cluster_t *self, uint64_t below)
{
    return cadre_random_below(&self->random, below);
}

/* Begins shards, at a checkpoint or empty. */
static void
begin(cluster_t *self, uint32_t shard_count, const char *path)
{
    self->shard_count = shard_count;
    for (uint32_t k = 0; k < shard_count; k++) {
        table_create_t table;
        self->files[k] = (cadre_checkpoint_loader_t){.folders = &ANYWHERE};
        const cadre_loader_t loader = cadre_checkpoint_loader(&self->files[k]);
        const cadre_shard_options_t options = {.incarnation = self->incarnation,
                                               .size_bytes_max = 64 << 20};
        self->shards[k] =
            (fixture_t){.request = 100, .loader = loader, .incarnation = self->incarnation};
        self->shards[k].shard = cadre_shard_new(&options);
        cadre_shard_begin_session(self->shards[k].shard, k, EPOCH, COORDINATOR,
                                  &self->shards[k].effects);
        cadre_message_t message = question(CADRE_MESSAGE_RESTORE, &THE_COORDINATOR);
        message.restore = (cadre_restore_message_t){.path = path,
                                                    .cut = self->update,
                                                    .generation = GENERATION,
                                                    .shard = k,
                                                    .ended = self->checkpoint};
        cr_assert_eq(reply_to(&self->shards[k], &THE_COORDINATOR, &message), 0, "%s",
                     cadre_error_text());
        table_create(&table, k, shard_count);
        table.table[2] = self->admit_after;
        cr_assert_eq(create(&self->shards[k], &table.message), 0, "%s", cadre_error_text());
    }
}

static void
end(cluster_t *self)
{
    for (uint32_t k = 0; k < self->shard_count; k++) {
        close_shard(&self->shards[k]);
    }
}

static cluster_t *
open_cluster(uint64_t seed, uint32_t shard_count)
{
    cluster_t *self = cadre_calloc(1, sizeof(*self));
    self->incarnation = seed;
    self->changes = BELOW;
    snprintf(self->directory, sizeof(self->directory), "/tmp/cadre-ps-test-XXXXXX");
    cr_assert_not_null(mkdtemp(self->directory));
    cr_assert_eq(cadre_checkpoint_directory_open(self->directory, true, &self->checkpoints), 0);
    self->update = 1;
    self->live = cadre_calloc(KEYS, sizeof(row_t));
    self->image = cadre_calloc(KEYS, sizeof(row_t));
    for (size_t i = 0; i < (size_t)KEYS * DIM; i++) {
        self->live[i / DIM].values[i % DIM] = 1;
        self->image[i / DIM].values[i % DIM] = 1;
    }
    cadre_random_init(&self->random, seed, 1);
    begin(self, shard_count, "");
    return self;
}

static int
remove_one(const char *path, const struct stat *about, int flag, struct FTW *walk)
{
    (void)about, (void)flag, (void)walk;
    return remove(path);
}

static void
close_cluster(cluster_t *self)
{
    end(self);
    cadre_checkpoint_directory_destroy(&self->checkpoints);
    nftw(self->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(self->live);
    free(self->image);
    free(self);
}

/* --- changes --- */

/* Some keys, ascending. */
static size_t
draw_keys(cluster_t *self, uint64_t *keys)
{
    size_t count = 0;
    const uint64_t first = draw(self, KEYS - SPAN);
    for (uint64_t key = first; key < first + SPAN; key += 1 + draw(self, 20)) {
        keys[count++] = key;
    }
    return count;
}

/* Picks the keys of a shard, and draws a number for each element of theirs. */
static size_t
pick(cluster_t *self, uint32_t shard, size_t count, const uint64_t *keys, uint64_t *its,
     float *numbers)
{
    size_t its_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (cadre_table_shard(keys[i], self->shard_count) != shard) {
            continue;
        }
        its[its_count] = keys[i];
        for (size_t d = 0; d < DIM; d++) {
            numbers[its_count * DIM + d] = (float)draw(self, 4096) / 64 - 32;
        }
        its_count++;
    }
    return its_count;
}

static void
change(row_t *row, const float *numbers, float factor, bool set)
{
    row->has_row = true;
    for (size_t d = 0; d < DIM; d++) {
        row->values[d] = set ? numbers[d] : row->values[d] + factor * numbers[d];
    }
}

/* One update with this id and these keys, of every shard that has some of them. */
static void
push_these(cluster_t *self, uint64_t update, size_t count, const uint64_t *keys)
{
    const bool is_above = self->cut > 0 && update >= self->cut;
    for (uint32_t k = 0; k < self->shard_count; k++) {
        uint64_t its[KEYS_MAX];
        uint64_t record[4];
        float gradient[KEYS_MAX * DIM];
        const size_t its_count = pick(self, k, count, keys, its, gradient);
        if (its_count == 0) {
            continue;
        }
        cadre_message_t message = push_keys_message(update, k, its_count, its, gradient, record);
        message.push.checkpoint = is_above ? self->checkpoint + 1 : 0;
        message.push.cut = is_above ? self->cut : 0;
        cr_assert_eq(push(&self->shards[k], &message), 0, "%s", cadre_error_text());
        for (size_t i = 0; i < its_count; i++) {
            change(&self->live[its[i]], gradient + i * DIM, -1, false);
            if (self->cut > 0 && !is_above) {
                change(&self->image[its[i]], gradient + i * DIM, -1, false);
            }
        }
    }
}

static void
push_some(cluster_t *self, uint64_t update)
{
    uint64_t keys[KEYS_MAX];
    push_these(self, update, draw_keys(self, keys), keys);
}

/* One ASSIGN; with an open cut one from before it or from after it. */
static void
assign_some(cluster_t *self)
{
    uint64_t keys[KEYS_MAX];
    const size_t count = draw_keys(self, keys);
    const cadre_assign_mode_t mode = (cadre_assign_mode_t)draw(self, 3);
    const bool is_before = self->cut > 0 && draw(self, 2) == 0;
    self->sequence++;
    for (uint32_t k = 0; k < self->shard_count; k++) {
        uint64_t its[KEYS_MAX];
        uint64_t record[4];
        float values[KEYS_MAX * DIM];
        const size_t its_count = pick(self, k, count, keys, its, values);
        if (its_count == 0) {
            continue;
        }
        cadre_message_t message = assign_keys_message(
            self->sequence, mode, &(keyed_rows_t){k, its_count, its, values}, record);
        message.assign.checkpoint = self->checkpoint + (self->cut > 0 && !is_before);
        message.assign.cut = self->cut;
        cr_assert_eq(reply_to(&self->shards[k], &THE_COORDINATOR, &message), 0, "%s",
                     cadre_error_text());
        for (size_t i = 0; i < its_count; i++) {
            const float factor = mode == CADRE_ASSIGN_ADD ? 1 : -1;
            change(&self->live[its[i]], values + i * DIM, factor, mode == CADRE_ASSIGN_SET);
            if (is_before) {
                change(&self->image[its[i]], values + i * DIM, factor, mode == CADRE_ASSIGN_SET);
            }
        }
    }
}

/* --- checkpoints --- */

static bool
never(void *context)
{
    (void)context;
    return false;
}

/* Opens a cut; the last BELOW ids before it were not used yet. */
static void
open_the_cut(cluster_t *self)
{
    self->update += BELOW;
    self->cut = self->update;
    memcpy(self->image, self->live, KEYS * sizeof(row_t));
    for (uint32_t k = 0; k < self->shard_count; k++) {
        cadre_message_t answer;
        cadre_message_t message = question(CADRE_MESSAGE_SNAPSHOT, &THE_COORDINATOR);
        message.snapshot = (cadre_snapshot_message_t){.checkpoint = self->checkpoint + 1,
                                                      .cut = self->cut,
                                                      .generation = GENERATION,
                                                      .shard = k};
        ask(&self->shards[k], &THE_COORDINATOR, &message, &answer);
        cr_assert_eq(answer.snapshot_taken.status, 0, "%s", answer.snapshot_taken.text);
        cadre_message_fini(&answer);
    }
}

/* Closes the cut on one shard, and writes its file. */
static cadre_manifest_shard_t
write_shard(cluster_t *self, uint32_t k, uint64_t since, const char *draft,
            cadre_ps_written_t *written)
{
    cadre_message_t message = question(CADRE_MESSAGE_CLOSE_CUT, &THE_COORDINATOR);
    message.close_cut = (cadre_close_cut_message_t){.checkpoint = self->checkpoint + 1,
                                                    .cut = self->cut,
                                                    .directory = draft,
                                                    .generation = GENERATION,
                                                    .shard = k,
                                                    .since = since};
    cr_assert_eq(reply_to(&self->shards[k], &THE_COORDINATOR, &message), 0);
    cadre_shard_snapshot_t *snapshot = cadre_shard_effects_take_snapshot(&self->shards[k].effects);
    cadre_snapshot_write(snapshot, &ANYWHERE, never, NULL, written);
    cr_assert_eq(written->status, 0, "%s", written->text);
    const cadre_manifest_shard_t shard = {.file = written->file,
                                          .size_bytes = written->size_bytes,
                                          .hash = written->hash,
                                          .state = snapshot->state};
    cadre_shard_snapshot_destroy(&snapshot);
    return shard;
}

/* Closes the cut, and commits its checkpoint, which leaves out what `since` has. Returns the bytes
 * of its files. */
static uint64_t
commit(cluster_t *self, uint64_t since)
{
    cadre_checkpoint_draft_t *draft = NULL;
    cadre_ps_written_t written[SHARDS_MAX];
    cadre_manifest_shard_t shards[SHARDS_MAX];
    cadre_manifest_partition_t parts[SHARDS_MAX] = {{0}};
    uint64_t size_bytes = 0;
    cr_assert_eq(cadre_checkpoint_draft_begin(self->checkpoints, self->checkpoint + 1, &draft), 0);
    for (uint32_t k = 0; k < self->shard_count; k++) {
        shards[k] = write_shard(self, k, since, cadre_checkpoint_draft_path(draft), &written[k]);
        parts[k].shard = k;
        size_bytes += shards[k].size_bytes;
    }
    cadre_manifest_variable_t variable = {.name = "table",
                                          .dtype = CADRE_F32,
                                          .rank = 2,
                                          .shape = {0, DIM},
                                          .initializer = json_object(),
                                          .optimizer = json_object(),
                                          .table = json_object(),
                                          .partition_count = self->shard_count,
                                          .partitions = parts};
    cadre_manifest_t manifest = {.job = "test",
                                 .id = self->checkpoint + 1,
                                 .since = since,
                                 .cut = self->cut,
                                 .epoch = EPOCH,
                                 .created = "today",
                                 .variable_count = 1,
                                 .variables = &variable,
                                 .shard_count = self->shard_count,
                                 .shards = shards,
                                 .progress = json_object()};
    cr_assert_eq(cadre_checkpoint_draft_commit(&draft, &manifest), 0, "%s", cadre_error_text());
    json_decref(variable.initializer);
    json_decref(variable.optimizer);
    json_decref(variable.table);
    json_decref(manifest.progress);
    self->checkpoint++;
    self->cut = 0;
    return size_bytes;
}

/* A walk over the rows of a checkpoint. */
typedef struct {
    const row_t *rows; /* what they should be */
    bool *seen;        /* [KEYS] */
    uint64_t count;
} stored_t;

static int
expect_stored_row(void *context, uint64_t key, const float *values)
{
    stored_t *self = context;
    cr_assert_lt(key, KEYS);
    cr_assert(self->rows[key].has_row && !self->seen[key], "key %llu", (unsigned long long)key);
    cr_assert_arr_eq(values, self->rows[key].values, sizeof(self->rows[key].values));
    self->seen[key] = true;
    self->count++;
    return 0;
}

/* Compares the rows of the last checkpoint, by key, with what was below its cut. */
static void
expect_stored_rows(const cluster_t *self)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s", self->directory, cadre_checkpoint_name(self->checkpoint, name));
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    cadre_auto(cadre_free) bool *seen = cadre_calloc(KEYS, sizeof(*seen));
    stored_t walk = {.rows = self->image, .seen = seen};
    uint64_t rows = 0;
    uint32_t dim = 0;
    cr_assert_eq(cadre_checkpoint_reader_open(path, &reader), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_table_rows_count(reader, "table", &rows, &dim), 0);
    cr_assert_eq(cadre_table_rows_each(reader, "table", expect_stored_row, &walk), 0, "%s",
                 cadre_error_text());
    cr_assert_eq(dim, DIM);
    cr_assert_eq(rows, walk.count);
    for (uint64_t key = 0; key < KEYS; key++) {
        cr_assert_eq(seen[key], self->image[key].has_row, "key %llu", (unsigned long long)key);
    }
    cr_assert_eq(cadre_table_rows_count(reader, "another", &rows, &dim), CADRE_ENOTFOUND);
}

/* A cut with stragglers and later updates in it, then its checkpoint. */
static uint64_t
take_checkpoint(cluster_t *self, uint64_t since)
{
    open_the_cut(self);
    for (uint64_t i = 0; i < self->changes; i++) {
        push_some(self, self->update++);
        push_some(self, self->cut - 1 - i);
        assign_some(self);
    }
    const uint64_t size_bytes = commit(self, since);
    cr_assert_eq(cadre_checkpoint_directory_verify(self->checkpoints, self->checkpoint), 0, "%s",
                 cadre_error_text());
    expect_stored_rows(self);
    return size_bytes;
}

/* Ends all shards and begins others at the last checkpoint. */
static void
restart(cluster_t *self, uint32_t shard_count)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s", self->directory, cadre_checkpoint_name(self->checkpoint, name));
    end(self);
    memcpy(self->live, self->image, KEYS * sizeof(row_t));
    self->sequence = 0;
    begin(self, shard_count, path);
}

/* Compares every key with the map. */
static void
expect_like_map(cluster_t *self)
{
    uint64_t rows = 0;
    uint64_t their_rows = 0;
    for (uint64_t first = 0; first < KEYS; first += KEYS_MAX) {
        for (uint32_t k = 0; k < self->shard_count; k++) {
            uint64_t its[KEYS_MAX];
            float values[KEYS_MAX * DIM];
            size_t count = 0;
            for (uint64_t key = first; key < first + KEYS_MAX && key < KEYS; key++) {
                its[count] = key;
                count += cadre_table_shard(key, self->shard_count) == k;
            }
            cr_assert_eq(pull_keys(&self->shards[k], k, count, its, values), 0);
            for (size_t i = 0; i < count; i++) {
                const row_t *row = &self->live[its[i]];
                cr_assert_arr_eq(values + i * DIM, row->values, sizeof(row->values), "key %llu",
                                 (unsigned long long)its[i]);
                rows += row->has_row;
            }
        }
    }
    for (uint32_t k = 0; k < self->shard_count; k++) {
        const cadre_table_t *table = cadre_shard_table(self->shards[k].shard, TABLE, k);
        their_rows += cadre_table_figures(table).rows;
    }
    cr_assert_eq(their_rows, rows);
}

/* Random changes, checkpoints and restarts from one seed. */
static void
follow_the_map(uint64_t seed)
{
    cluster_t *self = open_cluster(seed, 1 + (uint32_t)(seed % SHARDS_MAX));
    for (int turn = 0; turn < 12; turn++) {
        for (uint64_t i = 0; i < 1 + draw(self, 60); i++) {
            push_some(self, self->update++);
        }
        assign_some(self);
        take_checkpoint(self, draw(self, 4) == 0 ? 0 : self->checkpoint);
        if (draw(self, 3) == 0) {
            expect_like_map(self);
            restart(self, draw(self, 2) == 0 ? self->shard_count : 1 + (uint32_t)draw(self, 3));
            expect_like_map(self);
        }
    }
    expect_like_map(self);
    close_cluster(self);
}

Test(table_checkpoint, follows_a_map_through_cuts_chains_and_other_numbers_of_shards)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        follow_the_map(seed);
    }
}

static uint64_t
rows_of(const cluster_t *self)
{
    return table_figures(&self->shards[0]).rows;
}

/* A file without sightings is loaded where they are counted from now on; then a key that was seen
 * before a checkpoint gets its row after it, unless they are not counted any more. */
Test(table_checkpoint, goes_on_with_the_sightings_of_its_file)
{
    const uint64_t keys[] = {7, 8, 70};
    cluster_t *self = open_cluster(7, 1);
    push_these(self, self->update++, 1, &keys[0]);
    open_the_cut(self);
    commit(self, 0);
    self->admit_after = 2;
    restart(self, 1);
    cr_expect_eq(rows_of(self), 1);
    push_these(self, self->update++, 1, &keys[1]);
    cr_expect_eq(rows_of(self), 1);

    open_the_cut(self);
    commit(self, 1);
    restart(self, 1);
    push_these(self, self->update++, 2, &keys[1]);
    cr_expect_eq(rows_of(self), 2, "8 for the second time, 70 for the first");

    self->admit_after = 0;
    restart(self, 1);
    push_these(self, self->update++, 1, &keys[2]);
    cr_expect_eq(rows_of(self), 2);
    close_cluster(self);
}

/* --- chains --- */

/* Three checkpoints, of which each leaves pages to the one before. */
static cluster_t *
open_chain(uint64_t seed)
{
    cluster_t *self = open_cluster(seed, 1);
    uint64_t keys[SPAN];
    for (uint64_t first = 0; first < KEYS; first += SPAN) {
        for (uint64_t i = 0; i < SPAN; i++) {
            keys[i] = first + i;
        }
        push_these(self, self->update++, SPAN, keys);
    }
    self->changes = 1;
    const uint64_t whole = take_checkpoint(self, 0);
    const uint64_t second = take_checkpoint(self, 1);
    const uint64_t third = take_checkpoint(self, 2);
    cr_assert_lt(second, whole / 2, "%llu of %llu bytes", (unsigned long long)second,
                 (unsigned long long)whole);
    cr_assert_lt(third, whole / 2);
    return self;
}

static char *
path_of(const cluster_t *self, uint64_t checkpoint, const char *file)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    return cadre_asprintf("%s/%s/%s", self->directory, cadre_checkpoint_name(checkpoint, name),
                          file);
}

/* What a restart at the newest checkpoint says. */
static int
restart_status(cluster_t *self)
{
    table_create_t table;
    cadre_auto(cadre_free) char *path = path_of(self, self->checkpoint, "");
    cadre_checkpoint_loader_t files = {.folders = &ANYWHERE};
    const cadre_loader_t loader = cadre_checkpoint_loader(&files);
    fixture_t shard = open_shard(&loader);
    path[strlen(path) - 1] = '\0';
    int status = restore(&shard, path, self->update, GENERATION);
    status = status == 0 ? create(&shard, &table_create(&table, 0, 1)->message) : status;
    close_shard(&shard);
    return status;
}

Test(table_checkpoint, leaves_out_pages_that_have_not_changed_and_finds_them_again)
{
    cluster_t *self = open_chain(7);
    restart(self, 1);
    expect_like_map(self);
    take_checkpoint(self, 3);
    restart(self, 2);
    expect_like_map(self);
    close_cluster(self);
}

Test(table_checkpoint, writes_everything_where_it_does_not_have_what_may_be_left_out)
{
    cluster_t *self = open_chain(7);
    restart(self, 2);
    const uint64_t size_bytes = take_checkpoint(self, 3);
    struct stat about;
    cadre_auto(cadre_free) char *first = path_of(self, 1, "shard-0.mdb");
    cr_assert_eq(stat(first, &about), 0);
    cr_expect_geq(size_bytes, (uint64_t)about.st_size, "all pages are others on two shards");
    restart(self, 1);
    expect_like_map(self);
    close_cluster(self);
}

Test(table_checkpoint, finds_damage_anywhere_in_a_chain)
{
    for (uint64_t damaged = 1; damaged <= 3; damaged++) {
        cluster_t *self = open_chain(7);
        cadre_auto(cadre_free) char *path = path_of(self, damaged, "shard-0.mdb");
        struct stat about;
        cr_assert_eq(stat(path, &about), 0);
        FILE *file = fopen(path, "r+");
        cr_assert_eq(fseek(file, about.st_size / 2, SEEK_SET), 0);
        const int byte = fgetc(file);
        cr_assert_eq(fseek(file, about.st_size / 2, SEEK_SET), 0);
        fputc(byte ^ 1, file);
        fclose(file);
        uint64_t newest = 0;
        cr_expect_eq(cadre_checkpoint_directory_verify(self->checkpoints, 3), CADRE_ECORRUPT);
        const int status =
            cadre_checkpoint_directory_newest(self->checkpoints, NULL, NULL, &newest);
        cr_expect(damaged == 1 ? status == CADRE_ENOTFOUND : status == 0 && newest == damaged - 1);
        cr_expect_eq(restart_status(self), CADRE_ECORRUPT);
        close_cluster(self);
    }
}

Test(table_checkpoint, finds_that_a_base_is_missing)
{
    cluster_t *self = open_chain(7);
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    cr_assert_eq(cadre_checkpoint_directory_remove(self->checkpoints, "ckpt-00000001"), 0);
    cr_expect_eq(cadre_checkpoint_directory_verify(self->checkpoints, 3), CADRE_ECORRUPT);
    cr_expect_eq(restart_status(self), CADRE_ECORRUPT);
    cr_assert_eq(cadre_checkpoint_directory_list(self->checkpoints, &entries, &count), 0);
    cr_assert_eq(count, 2);
    cr_expect_not(entries[0].valid || entries[1].valid);
    cr_expect(strstr(entries[1].reason, "ckpt-00000001, which is not there") != NULL);
    cadre_checkpoint_entries_free(&entries, count);
    close_cluster(self);
}

/* A base of the same number that another process has written is not the one. */
Test(table_checkpoint, finds_that_a_base_was_written_again)
{
    cluster_t *self = open_chain(7);
    cluster_t *other = open_chain(8);
    for (int i = 0; i < 2; i++) {
        char name[CADRE_CHECKPOINT_NAME_SIZE];
        cadre_checkpoint_name((uint64_t)i + 1, name);
        cadre_auto(cadre_free) char *from = cadre_asprintf("%s/%s", other->directory, name);
        cadre_auto(cadre_free) char *to = cadre_asprintf("%s/%s", self->directory, name);
        cr_assert_eq(cadre_checkpoint_directory_remove(self->checkpoints, name), 0);
        cr_assert_eq(rename(from, to), 0);
    }
    cr_expect_eq(cadre_checkpoint_directory_verify(self->checkpoints, 2), 0, "%s",
                 cadre_error_text());
    cr_expect_eq(cadre_checkpoint_directory_verify(self->checkpoints, 3), CADRE_ECORRUPT);
    cr_expect_eq(restart_status(self), CADRE_ECORRUPT);
    close_cluster(other);
    close_cluster(self);
}

Test(table_checkpoint, retention_keeps_what_a_chain_needs)
{
    cluster_t *self = open_chain(7);
    size_t removed = 0;
    cr_assert_eq(cadre_checkpoint_directory_retain(self->checkpoints, 1, UINT64_MAX, &removed), 0);
    cr_expect_eq(removed, 0, "the last needs both");
    take_checkpoint(self, 0);
    take_checkpoint(self, 4);
    cr_assert_eq(cadre_checkpoint_directory_retain(self->checkpoints, 1, UINT64_MAX, &removed), 0);
    cr_expect_eq(removed, 3);
    restart(self, 1);
    expect_like_map(self);
    close_cluster(self);
}
