#include "ps/snapshot_writer.h"

#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/disk.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/shard_writer.h"

typedef struct {
    cadre_shard_writer_t *writer;
    cadre_give_up_t give_up;
} job_t;

/* Writes the chunks of a part's values (slot < 0) or of one optimizer slot to the file, and drops
 * each reference once its bytes are copied. */
static int
put_kind(const job_t *job, cadre_shard_snapshot_part_t *part, int slot)
{
    const cadre_partition_spec_t *spec = &part->spec;
    cadre_partition_snapshot_t *references = &part->references;
    size_t element_size = cadre_dtype_size(spec->dtype);
    size_t row_size_bytes = spec->rows > 0 ? part->layout.size_bytes / (size_t)spec->rows : 0;
    /* The first element of this partition within the whole variable. */
    int64_t first = (int64_t)(row_size_bytes / element_size) * spec->first_row;
    /* A slot is stored with the steps of the optimizer as its version. */
    cadre_shard_chunk_t chunk = {
        .variable = part->name,
        .kind = slot < 0 ? CADRE_CHECKPOINT_KIND_VALUE
                         : cadre_optimizer_slot_name(&spec->optimizer, (size_t)slot),
        .dtype = slot < 0 ? spec->dtype : CADRE_F32,
        .rank = spec->rank,
        .version = slot < 0 ? references->version : references->steps,
        .steps = references->steps,
    };
    memcpy(chunk.shape, spec->shape, sizeof(chunk.shape));
    cadre_chunk_t **chunks = slot < 0 ? references->values : references->slots[slot];
    for (size_t k = 0; k < references->chunk_count; k++) {
        if (cadre_give_up(&job->give_up)) {
            return cadre_fail(CADRE_ECANCELLED, "the checkpoint was given up");
        }
        size_t offset = cadre_chunk_layout_offset(&part->layout, k);
        chunk.first_element = first + (int64_t)(offset / element_size);
        chunk.bytes = cadre_chunk_data(chunks[k]);
        chunk.size_bytes = cadre_chunk_size_bytes(chunks[k]);
        int status = cadre_shard_writer_put_chunk(job->writer, &chunk);
        if (status < 0) {
            return status;
        }
        cadre_chunk_unref(&chunks[k]); /* its bytes are copied */
    }
    return 0;
}

/* Writes the pages of a table, and drops each reference once its bytes are copied. */
static int
put_pages(const job_t *job, const char *name, cadre_row_snapshot_t *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (cadre_give_up(&job->give_up)) {
            return cadre_fail(CADRE_ECANCELLED, "the checkpoint was given up");
        }
        const cadre_table_page_t page = {.position = rows->positions[i],
                                         .bytes = cadre_chunk_data(rows->chunks[i]),
                                         .size_bytes = cadre_chunk_size_bytes(rows->chunks[i])};
        int status =
            cadre_shard_writer_put_page(job->writer, name, CADRE_CHECKPOINT_KIND_PAGE, &page);
        if (status < 0) {
            return status;
        }
        cadre_chunk_unref(&rows->chunks[i]);
    }
    return 0;
}

/* Writes the counters of sightings of a table. */
static int
put_sightings(const job_t *job, const char *name, const cadre_sighting_sketch_t *sketch)
{
    const uint32_t positions = cadre_sighting_sketch_positions(sketch);
    for (uint32_t i = 0; i < positions; i++) {
        const cadre_chunk_t *block = cadre_sighting_sketch_block(sketch, i);
        if (!block) {
            continue;
        }
        if (cadre_give_up(&job->give_up)) {
            return cadre_fail(CADRE_ECANCELLED, "the checkpoint was given up");
        }
        const cadre_table_page_t page = {.position = i,
                                         .bytes = cadre_chunk_data(block),
                                         .size_bytes = cadre_chunk_size_bytes(block)};
        int status =
            cadre_shard_writer_put_page(job->writer, name, CADRE_CHECKPOINT_KIND_SIGHTINGS, &page);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Writes a table: its description, the counters of sightings, and the pages that its base lacks. */
static int
put_table(const job_t *job, cadre_shard_snapshot_part_t *part)
{
    cadre_auto(cadre_table_snapshot_fini) cadre_table_snapshot_t snapshot;
    cadre_table_record_t record;
    cadre_table_snapshot(part->table, part->base.checkpoint, part->own.checkpoint, &snapshot);
    cadre_table_describe(part->table, &snapshot, &record);
    record.stamp = part->own.stamp;
    record.base = part->base.checkpoint;
    record.base_stamp = part->base.stamp;
    record.shard = part->spec.partition;
    record.shards = part->spec.partitions;
    /* From here on each page is held by the snapshot alone, and by the shard where it has not
     * changed. */
    cadre_table_close(&part->table);

    int status = cadre_shard_writer_put_table(job->writer, part->name, &record);
    if (status == 0 && snapshot.sketch) {
        status = put_sightings(job, part->name, snapshot.sketch);
    }
    return status == 0 ? put_pages(job, part->name, &snapshot.rows) : status;
}

/* Returns the bytes of values and slots in the snapshot, by which the file is sized. */
static uint64_t
size_of(const cadre_shard_snapshot_t *snapshot)
{
    uint64_t size_bytes = 0;
    for (size_t i = 0; i < snapshot->part_count; i++) {
        const cadre_shard_snapshot_part_t *part = &snapshot->parts[i];
        size_bytes += part->layout.size_bytes * (1 + part->references.slot_count);
        size_bytes += part->table ? cadre_table_figures(part->table).size_bytes : 0;
    }
    return size_bytes;
}

/* Writes the state of the shard, then of each partition the values (slot -1) and the slots, and
 * each table. */
static int
put_all(const job_t *job, cadre_shard_snapshot_t *snapshot)
{
    int status = cadre_shard_writer_put_state(job->writer, &snapshot->state);
    for (size_t i = 0; status == 0 && i < snapshot->part_count; i++) {
        cadre_shard_snapshot_part_t *part = &snapshot->parts[i];
        if (part->table) {
            status = put_table(job, part);
            continue;
        }
        int slots = (int)part->references.slot_count;
        for (int slot = -1; status == 0 && slot < slots; slot++) {
            status = put_kind(job, part, slot);
        }
    }
    return status;
}

/* Opens, writes and ends the file; on failure the caller discards job->writer. */
static int
write_file(job_t *job, cadre_shard_snapshot_t *snapshot, int folder, cadre_ps_written_t *written)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", snapshot->directory, written->file);
    int status =
        cadre_shard_writer_open(folder, written->file, path, size_of(snapshot), &job->writer);
    if (status == 0) {
        status = put_all(job, snapshot);
    }
    if (status < 0) {
        return status;
    }
    return cadre_shard_writer_close(&job->writer, &job->give_up, &written->size_bytes,
                                    &written->hash);
}

/* Writes the snapshot to its file; `written` says whether that succeeded. */
void
cadre_snapshot_write(cadre_shard_snapshot_t *snapshot, const cadre_folders_t *folders,
                     bool (*give_up)(void *context), void *context, cadre_ps_written_t *written)
{
    job_t job = {.give_up = {give_up, context}};
    *written = (cadre_ps_written_t){
        .epoch = snapshot->epoch, .checkpoint = snapshot->checkpoint, .step = snapshot->step};
    memcpy(written->counters, snapshot->counters, sizeof(written->counters));
    cadre_checkpoint_shard_name(snapshot->index, written->file);

    cadre_auto(cadre_disk_close) int folder = -1;
    int status = cadre_folders_open(folders, snapshot->directory, &folder);
    if (status == 0) {
        status = write_file(&job, snapshot, folder, written);
    }
    /* Removes the file of a failed writing, which takes the open folder. */
    cadre_shard_writer_destroy(&job.writer);

    written->status = status;
    if (status < 0) {
        snprintf(written->text, sizeof(written->text), "%.*s", (int)sizeof(written->text) - 1,
                 cadre_error_text());
    }
}
