/*
 * snapshot_writer_test - what one shard writes, others load: through files, and cut otherwise.
 */
#include "ps/snapshot_writer.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_draft.h"
#include "ps/checkpoint_loader.h"
#include "tests/ps/shard_fixture.h"

TestSuite(snapshot_writer, .timeout = 240);

enum { PARTS_MAX = 3 };

static const cadre_folders_t ANYWHERE = {.any = true};

/* CREATE of partition `index` of `count` of a [ROWS, COLUMNS] variable under Adam. */
static int
create_part(fixture_t *self, uint64_t index, uint64_t count)
{
    uint64_t shape[2];
    static const double uniform[] = {-1, 1};
    static const double adam[] = {0.01, 0.9, 0.999, 1e-7};
    cadre_create_message_t message = create_message(1, ROWS, COLUMNS, shape);
    message.partition = index;
    message.partitions = count;
    message.first_row = ROWS / count * index;
    message.rows = ROWS / count;
    message.initializer = CADRE_INITIALIZER_UNIFORM;
    message.initializer_parameters = (cadre_f64s_t){uniform, 2};
    message.seed = 3;
    message.optimizer = CADRE_OPTIMIZER_ADAM;
    message.optimizer_parameters = (cadre_f64s_t){adam, 4};
    return create(self, &message);
}

/* One update of every partition, gradient `value` everywhere. */
static void
push_parts(fixture_t *self, uint64_t update, uint64_t count, float value)
{
    uint64_t triples[3 * PARTS_MAX] = {0};
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    for (uint64_t i = 0; i < count; i++) {
        const cadre_partition_t *partition = cadre_shard_partition(self->shard, 1, i);
        const cadre_chunk_layout_t *layout = cadre_partition_layout(partition);
        triples[3 * i] = 1;
        triples[3 * i + 1] = i;
        triples[3 * i + 2] = cadre_partition_version(partition);
        for (size_t k = 0; k < layout->count; k++) {
            cadre_message_add_chunk(
                &message, new_floats(cadre_chunk_layout_size(layout, k) / sizeof(float), value));
        }
    }
    message.push = (cadre_push_message_t){
        .update = update, .generation = GENERATION, .partitions = {triples, 3 * count}};
    cr_assert_eq(push(self, &message), 0, "%s", cadre_error_text());
}

/* All values, then all of each slot, in the order of the elements. */
static float *
everything(fixture_t *self, uint64_t count)
{
    float *all = cadre_calloc((size_t)3 * ROWS * COLUMNS, sizeof(float));
    for (uint64_t i = 0; i < count; i++) {
        cadre_partition_snapshot_t part;
        cadre_partition_snapshot(cadre_shard_partition(self->shard, 1, i), &part);
        cr_assert_eq(part.slot_count, 2);
        for (size_t kind = 0; kind < 3; kind++) {
            cadre_chunk_t **chunks = kind == 0 ? part.values : part.slots[kind - 1];
            float *to = all + kind * ROWS * COLUMNS + ROWS / count * i * COLUMNS;
            for (size_t k = 0; k < part.chunk_count; k++) {
                memcpy(to, cadre_chunk_data(chunks[k]), cadre_chunk_size_bytes(chunks[k]));
                to += cadre_chunk_size_bytes(chunks[k]) / sizeof(float);
            }
        }
        cadre_partition_snapshot_fini(&part);
    }
    return all;
}

typedef struct {
    const cadre_shard_snapshot_t *snapshot;
    size_t asked;
} watch_t;

/* References that a snapshot has dropped. */
static size_t
dropped(const cadre_shard_snapshot_t *snapshot)
{
    size_t count = 0;
    for (size_t i = 0; i < snapshot->part_count; i++) {
        const cadre_partition_snapshot_t *part = &snapshot->parts[i].references;
        for (size_t k = 0; k < part->chunk_count; k++) {
            count += part->values[k] == NULL;
            for (size_t slot = 0; slot < part->slot_count; slot++) {
                count += part->slots[slot][k] == NULL;
            }
        }
    }
    return count;
}

/* Before each chunk those before it, and no other, have been let go. */
static bool
watch(void *context)
{
    watch_t *self = context;
    cr_assert_eq(dropped(self->snapshot), self->asked);
    self->asked++;
    return false;
}

static bool
never(void *context)
{
    (void)context;
    return false;
}

static bool
after_one(void *context)
{
    int *asked = context;
    return (*asked)++ > 0;
}

static cadre_shard_snapshot_t *
take(fixture_t *self, const char *directory)
{
    cr_assert_eq(open_cut(self, 1, 50, GENERATION), 0);
    cr_assert_eq(close_cut(self, 1, 50, directory, GENERATION), 0);
    return cadre_shard_effects_take_snapshot(&self->effects);
}

/* Writes the shard, whose variable has `count` partitions, as checkpoint 1 in `directory`. */
static void
write_checkpoint(fixture_t *self, uint64_t count, const char *directory)
{
    cadre_checkpoint_directory_t *checkpoints = NULL;
    cadre_checkpoint_draft_t *draft = NULL;
    cadre_ps_written_t written;
    cr_assert_eq(cadre_checkpoint_directory_open(directory, true, &checkpoints), 0);
    cr_assert_eq(cadre_checkpoint_draft_begin(checkpoints, 1, &draft), 0);
    cadre_shard_snapshot_t *snapshot = take(self, cadre_checkpoint_draft_path(draft));
    snapshot->step = 5;
    cadre_snapshot_write(snapshot, &ANYWHERE, never, NULL, &written);
    cr_assert_eq(written.status, 0, "%s", written.text);
    cr_assert_eq(written.checkpoint, 1);
    cr_assert_str_eq(written.file, "shard-0.mdb");
    cr_assert_eq(written.counters[CADRE_PS_COUNTER_applied], COUNTER(self, applied));
    cr_assert_eq(written.step, 5);
    cadre_manifest_partition_t parts[PARTS_MAX] = {{0}};
    for (uint64_t i = 0; i < count; i++) {
        parts[i] =
            (cadre_manifest_partition_t){.first_element = (int64_t)(ROWS / count * i * COLUMNS),
                                         .count = (int64_t)(ROWS / count * COLUMNS)};
    }
    cadre_manifest_shard_t shard = {.file = written.file,
                                    .size_bytes = written.size_bytes,
                                    .hash = written.hash,
                                    .state = snapshot->state};
    cadre_manifest_variable_t variable = {.name = "weights",
                                          .dtype = CADRE_F32,
                                          .rank = 2,
                                          .shape = {ROWS, COLUMNS},
                                          .initializer = json_object(),
                                          .optimizer = json_object(),
                                          .partition_count = count,
                                          .partitions = parts};
    cadre_manifest_t manifest = {.job = "test",
                                 .id = 1,
                                 .cut = 50,
                                 .epoch = EPOCH,
                                 .created = "today",
                                 .variable_count = 1,
                                 .variables = &variable,
                                 .shard_count = 1,
                                 .shards = &shard,
                                 .progress = json_object()};
    cr_assert_eq(cadre_checkpoint_draft_commit(&draft, &manifest), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_checkpoint_directory_verify(checkpoints, 1), 0, "%s", cadre_error_text());
    json_decref(variable.initializer);
    json_decref(variable.optimizer);
    json_decref(manifest.progress);
    cadre_shard_snapshot_destroy(&snapshot);
    cadre_checkpoint_directory_destroy(&checkpoints);
}

static int
remove_one(const char *path, const struct stat *about, int flag, struct FTW *walk)
{
    (void)about, (void)flag, (void)walk;
    return remove(path);
}

static void
clear(const char *directory)
{
    nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* From `before` partitions to `after`: the same bits, and the same bits after one more update. */
static void
expect_round_trip(uint64_t before, uint64_t after)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    fixture_t first = open_shard(NULL);
    cr_assert_eq(restore(&first, "", 1, GENERATION), 0);
    for (uint64_t i = 0; i < before; i++) {
        cr_assert_eq(create_part(&first, i, before), 0);
    }
    for (uint64_t update = 1; update <= 7; update++) {
        push_parts(&first, update, before, 0.5f - (float)update);
    }
    write_checkpoint(&first, before, directory);

    cadre_checkpoint_loader_t files = {.folders = &ANYWHERE};
    cadre_loader_t loader = cadre_checkpoint_loader(&files);
    fixture_t second = open_shard(&loader);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/ckpt-00000001", directory);
    cr_assert_eq(restore(&second, path, 50, GENERATION), 0, "%s", cadre_error_text());
    cr_assert_eq(COUNTER(&second, applied), 7);
    for (uint64_t i = 0; i < after; i++) {
        cr_assert_eq(create_part(&second, i, after), 0, "%s", cadre_error_text());
        const cadre_partition_t *partition = cadre_shard_partition(second.shard, 1, i);
        cr_assert_eq(cadre_partition_version(partition), 7);
        cr_assert_eq(cadre_partition_steps(partition), 7);
    }
    push_parts(&first, 60, before, 0.25f);
    push_parts(&second, 60, after, 0.25f);
    cadre_auto(cadre_free) float *left = everything(&first, before);
    cadre_auto(cadre_free) float *right = everything(&second, after);
    cr_assert(memcmp(left, right, (size_t)3 * ROWS * COLUMNS * sizeof(float)) == 0);
    close_shard(&first);
    close_shard(&second);
    clear(directory);
}

Test(snapshot_writer, lets_go_of_each_chunk_as_soon_as_it_is_written)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    fixture_t self = open_shard(NULL);
    cadre_ps_written_t written;
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(create_part(&self, 0, 1), 0);
    cadre_shard_snapshot_t *snapshot = take(&self, directory);
    watch_t watched = {.snapshot = snapshot};
    cadre_snapshot_write(snapshot, &ANYWHERE, watch, &watched, &written);
    cr_assert_eq(written.status, 0, "%s", written.text);
    cr_assert_gt(watched.asked, 3); /* values and two slots, of two chunks each */
    cr_assert_eq(dropped(snapshot) + 1, watched.asked, "and once before it is hashed");
    cadre_shard_snapshot_destroy(&snapshot);
    close_shard(&self);
    clear(directory);
}

Test(snapshot_writer, writes_what_a_shard_loads_to_the_same_bits)
{
    expect_round_trip(1, 1);
}

Test(snapshot_writer, writes_what_loads_into_more_partitions)
{
    expect_round_trip(1, 3);
}

Test(snapshot_writer, writes_what_loads_into_fewer_partitions)
{
    expect_round_trip(3, 2);
}

Test(snapshot_writer, gives_up_when_told_to_and_leaves_no_file)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    int asked = 0;
    cadre_ps_written_t written;
    fixture_t self = open_filled_shard();
    cadre_shard_snapshot_t *snapshot = take(&self, directory);
    cadre_snapshot_write(snapshot, &ANYWHERE, after_one, &asked, &written);
    cr_assert_eq(written.status, CADRE_ECANCELLED);
    cr_assert_eq(rmdir(directory), 0, "nothing is left in it");
    cadre_shard_snapshot_destroy(&snapshot);
    close_shard(&self);
}

Test(snapshot_writer, reports_a_failure_with_its_text)
{
    cadre_ps_written_t written;
    fixture_t self = open_filled_shard();
    cadre_shard_snapshot_t *snapshot = take(&self, "/nowhere/at/all");
    cadre_snapshot_write(snapshot, &ANYWHERE, never, NULL, &written);
    cr_assert_eq(written.status, CADRE_ENOTFOUND);
    cr_assert_not_null(strstr(written.text, "/nowhere/at/all"));
    cadre_shard_snapshot_destroy(&snapshot);
    close_shard(&self);
}

Test(snapshot_writer, writes_and_reads_nothing_outside_its_folders)
{
    char directory[] = "/tmp/cadre-ps-test-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    cadre_folders_t elsewhere = {.any = false};
    cr_assert_eq(cadre_folders_add(&elsewhere, "/tmp/cadre-elsewhere"), 0);
    fixture_t self = open_shard(NULL);
    cadre_ps_written_t written;
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(create_part(&self, 0, 1), 0);
    cadre_shard_snapshot_t *snapshot = take(&self, directory);
    cadre_snapshot_write(snapshot, &elsewhere, never, NULL, &written);
    cr_assert_eq(written.status, CADRE_EREFUSED);
    cr_assert_not_null(strstr(written.text, "--checkpoint-dir"));
    cr_assert_eq(rmdir(directory), 0, "nothing is in it");
    cadre_shard_snapshot_destroy(&snapshot);
    close_shard(&self);

    cadre_checkpoint_loader_t files = {.folders = &elsewhere};
    cadre_loader_t loader = cadre_checkpoint_loader(&files);
    self = open_shard(&loader);
    cr_assert_eq(restore(&self, "/tmp", 1, GENERATION), CADRE_EREFUSED);
    close_shard(&self);
}

/* --- whoever can write in the folders --- */

/* A folder for checkpoints with one for a step, and another one that is somebody else's. */
typedef struct {
    char top[64];
    char *step;
    char *other;
    char *victim; /* other/shard-0.mdb */
    cadre_folders_t folders;
} place_t;

static void
place_init(place_t *self)
{
    *self = (place_t){.top = "/tmp/cadre-ps-test-XXXXXX"};
    cr_assert_not_null(mkdtemp(self->top));
    self->step = cadre_asprintf("%s/step", self->top);
    self->other = cadre_asprintf("%s/other", self->top);
    self->victim = cadre_asprintf("%s/shard-0.mdb", self->other);
    cr_assert(mkdir(self->step, 0700) == 0 && mkdir(self->other, 0700) == 0);
    cr_assert_eq(cadre_folders_add(&self->folders, self->top), 0);
}

static void
place_fini(place_t *self)
{
    clear(self->top);
    free(self->step);
    free(self->other);
    free(self->victim);
}

static void
write_victim(const place_t *self)
{
    FILE *file = fopen(self->victim, "w");
    cr_assert(file && fputs("theirs", file) >= 0 && fclose(file) == 0);
}

static bool
is_victim_whole(const place_t *self)
{
    char text[16] = "";
    FILE *file = fopen(self->victim, "r");
    bool found = file && fgets(text, sizeof(text), file);
    if (file) {
        fclose(file);
    }
    return found && strcmp(text, "theirs") == 0;
}

/* Puts a link to the other folder in the place of the step's, once. */
static bool
swap(void *context)
{
    const place_t *self = context;
    cadre_auto(cadre_free) char *aside = cadre_asprintf("%s/aside", self->top);
    if (access(aside, F_OK) != 0) {
        cr_assert(rename(self->step, aside) == 0 && symlink("other", self->step) == 0);
    }
    return false;
}

static bool
swap_and_give_up(void *context)
{
    swap(context);
    return true;
}

static cadre_ps_written_t
write_in(const place_t *self, const char *directory, bool (*give_up)(void *context))
{
    cadre_ps_written_t written;
    fixture_t shard = open_filled_shard();
    cadre_shard_snapshot_t *snapshot = take(&shard, directory);
    cadre_snapshot_write(snapshot, &self->folders, give_up, (void *)self, &written);
    cadre_shard_snapshot_destroy(&snapshot);
    close_shard(&shard);
    return written;
}

Test(snapshot_writer, writes_through_no_link_in_the_place_of_the_step)
{
    cadre_auto(place_fini) place_t place;
    place_init(&place);
    cr_assert(rmdir(place.step) == 0 && symlink("other", place.step) == 0);
    cadre_ps_written_t written = write_in(&place, place.step, never);
    cr_expect_eq(written.status, CADRE_EREFUSED, "%s", written.text);
    cr_expect_not_null(strstr(written.text, place.step), "%s", written.text);
    cr_expect_eq(access(place.victim, F_OK), -1, "nothing is written where it leads");
}

Test(snapshot_writer, writes_through_no_link_in_the_place_of_the_file)
{
    cadre_auto(place_fini) place_t place;
    place_init(&place);
    cadre_auto(cadre_free) char *link = cadre_asprintf("%s/shard-0.mdb", place.step);
    cr_assert_eq(symlink("../other/shard-0.mdb", link), 0);
    cadre_ps_written_t written = write_in(&place, place.step, never);
    cr_expect_eq(written.status, CADRE_EEXISTS, "%s", written.text);
    cr_expect_not_null(strstr(written.text, link), "%s", written.text);
    cr_expect_eq(access(place.victim, F_OK), -1, "nothing is written where it leads");
}

Test(snapshot_writer, takes_no_way_up_from_the_wire)
{
    cadre_auto(place_fini) place_t place;
    place_init(&place);
    cr_assert_eq(place.folders.count, 1);
    place.folders.paths[0] = place.step;
    cadre_auto(cadre_free) char *up = cadre_asprintf("%s/../other", place.step);
    cadre_ps_written_t written = write_in(&place, up, never);
    cr_expect_eq(written.status, CADRE_EREFUSED, "%s", written.text);
    cr_expect_eq(access(place.victim, F_OK), -1);
}

Test(snapshot_writer, writes_on_in_its_folder_when_a_link_takes_the_name)
{
    cadre_auto(place_fini) place_t place;
    place_init(&place);
    write_victim(&place);
    cadre_ps_written_t written = write_in(&place, place.step, swap);
    cr_assert_eq(written.status, 0, "%s", written.text);
    struct stat about;
    cadre_auto(cadre_free) char *file = cadre_asprintf("%s/aside/shard-0.mdb", place.top);
    cr_assert_eq(stat(file, &about), 0, "it is in the folder that was opened");
    cr_expect_eq((uint64_t)about.st_size, written.size_bytes);
    cr_expect(is_victim_whole(&place));
}

Test(snapshot_writer, removes_nothing_where_a_link_leads_that_took_the_name)
{
    cadre_auto(place_fini) place_t place;
    place_init(&place);
    write_victim(&place);
    cadre_ps_written_t written = write_in(&place, place.step, swap_and_give_up);
    cr_expect_eq(written.status, CADRE_ECANCELLED);
    cadre_auto(cadre_free) char *file = cadre_asprintf("%s/aside/shard-0.mdb", place.top);
    cr_expect_eq(access(file, F_OK), -1, "what was begun is removed");
    cr_expect(is_victim_whole(&place));
}

Test(snapshot_writer, loads_through_no_link_in_the_place_of_the_step)
{
    cadre_auto(place_fini) place_t place;
    place_init(&place);
    fixture_t first = open_filled_shard();
    write_checkpoint(&first, 1, place.other);
    close_shard(&first);

    cadre_checkpoint_loader_t files = {.folders = &place.folders};
    cadre_loader_t loader = cadre_checkpoint_loader(&files);
    fixture_t second = open_shard(&loader);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/ckpt-00000001", place.other);
    cadre_auto(cadre_free) char *link = cadre_asprintf("%s/ckpt-00000001", place.step);
    cr_assert_eq(symlink("../other/ckpt-00000001", link), 0);
    cr_expect_eq(restore(&second, link, 50, GENERATION), CADRE_EREFUSED);
    cr_expect_eq(restore(&second, path, 50, GENERATION), 0, "%s", cadre_error_text());
    close_shard(&second);
    loader.close(loader.context);
}
