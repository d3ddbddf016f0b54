/*
 * segments - segment sums (scatter-add): scatter, and the gradient of a bag's table.
 *
 * The index is sorted by row (sort.cuh), so that the entries for one row are a segment. The sorted
 * entries are cut into chunks of the same length, whatever the segments: one thread sums four
 * columns of a chunk, so a row that many entries name takes no longer than others. A segment within
 * a chunk is summed in the order of the index and written. A segment that crosses chunks leaves a
 * part of its sum in scratch memory for each chunk, and a second kernel adds the parts in order. No
 * atomics: the same run gives the same bits.
 */
#include "worker/device/cuda/bags.cuh"
#include "worker/device/cuda/scratch.cuh"
#include "worker/device/cuda/sort.cuh"

enum { CHUNK = 32 };

struct segments_t {
    int64_t count; /* of entries */
    int64_t chunks;
    int64_t rows;     /* of the output */
    int64_t row_size; /* in units */
    sorted_t sorted;
    const uint32_t *begins; /* [rows + 1]: the first sorted entry of each row's segment */
    const uint32_t
        *source;        /* [count]: the row of `from` that an entry adds; NULL: its own number */
    const float *scale; /* [count]: the factor of each entry; NULL: all 1 */
    const void *from;
    void *
        parts; /* [chunks, 2, row_size]: the part of the segment that began in an earlier chunk, and
                    of the one that goes on in the next */
    void *out;
};

struct begins_t {
    int64_t count;
    int64_t rows;
    const uint32_t *sorted;
    uint32_t *begins;
};

/* Finds, for each row, the first sorted entry whose row is not below it. */
static __global__ void
find_begins(const __grid_constant__ begins_t begins)
{
    int64_t row = static_cast<int64_t>(unit_index());
    if (row > begins.rows) {
        return;
    }
    int64_t low = 0;
    int64_t high = begins.count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (begins.sorted[middle] < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    begins.begins[row] = static_cast<uint32_t>(low);
}

/* Stores the sum of row `row`'s entries in one chunk: in the output if all entries of the row are
 * in this chunk; else as the part that came in from an earlier chunk, or that goes on in the next
 * one. */
template <typename unit_t>
static __device__ __forceinline__ void
store_sum(const segments_t &segments, int64_t chunk, int64_t column, uint32_t row,
          const unit_t &sum)
{
    if (row >= segments.rows) {
        return; /* sums of entries that name no row are dropped */
    }
    int64_t begin = chunk * CHUNK;
    int64_t end = begin + CHUNK;
    unit_t *parts = static_cast<unit_t *>(segments.parts) + chunk * 2 * segments.row_size + column;
    if (segments.begins[row] < begin) {
        parts[0] = sum;
    } else if (segments.begins[row + 1] > end) {
        parts[segments.row_size] = sum;
    } else {
        static_cast<unit_t *>(segments.out)[row * segments.row_size + column] = sum;
    }
}

/* Sums the entries of one chunk (CHUNK sorted entries) in one column, or four, per thread: whenever
 * the next entry names another row, the sum of the row before is stored. */
template <typename unit_t>
static __global__ void
sum_chunks(const __grid_constant__ segments_t segments)
{
    int64_t unit = static_cast<int64_t>(unit_index());
    if (unit >= segments.chunks * segments.row_size) {
        return;
    }
    int64_t chunk = unit / segments.row_size;
    int64_t column = unit % segments.row_size;
    int64_t end = (chunk + 1) * CHUNK < segments.count ? (chunk + 1) * CHUNK : segments.count;
    uint32_t row = segments.sorted.rows[chunk * CHUNK];
    unit_t sum = {};
    for (int64_t at = chunk * CHUNK; at < end; at++) {
        uint32_t next = segments.sorted.rows[at];
        if (next != row) {
            store_sum(segments, chunk, column, row, sum);
            row = next;
            sum = {};
        }
        if (row >= segments.rows) {
            break; /* from here on no entry names a row */
        }
        uint32_t entry = segments.sorted.positions[at];
        int64_t source = segments.source ? segments.source[entry] : entry;
        unit_t value =
            static_cast<const unit_t *>(segments.from)[source * segments.row_size + column];
        add_scaled(&sum, value, segments.scale ? segments.scale[entry] : 1);
    }
    store_sum(segments, chunk, column, row, sum);
}

/* Writes the rows that no chunk has written: 0 for rows without entries, and the sum of the parts
 * for rows whose segment crosses chunks. */
template <typename unit_t>
static __global__ void
add_parts(const __grid_constant__ segments_t segments)
{
    int64_t unit = static_cast<int64_t>(unit_index());
    if (unit >= segments.rows * segments.row_size) {
        return;
    }
    int64_t row = unit / segments.row_size;
    int64_t column = unit % segments.row_size;
    int64_t begin = segments.begins[row];
    int64_t end = segments.begins[row + 1];
    unit_t sum = {};
    if (begin < end) {
        int64_t first = begin / CHUNK;
        int64_t last = (end - 1) / CHUNK;
        if (first == last) {
            return;
        }
        /* Adds the part that the first chunk leaves for the row (outgoing) and the part that
         * each later chunk begins with (incoming). */
        const unit_t *parts = static_cast<const unit_t *>(segments.parts) + column;
        sum = parts[(first * 2 + 1) * segments.row_size];
        for (int64_t chunk = first + 1; chunk <= last; chunk++) {
            add_scaled(&sum, parts[chunk * 2 * segments.row_size], 1);
        }
    }
    static_cast<unit_t *>(segments.out)[unit] = sum;
}

/* ---- the gradient of a bag's table: for each entry (one row number in one bag) the row of the
 * output's gradient that it takes, and the factor ---- */

struct entries_t {
    bags_t bags;
    float *divisors; /* [bags] */
    uint32_t *source;
    float *scale;
};

/* Computes by what the mean of each bag divides: the number of its entries that are not padding, or
 * 1 where there are none. */
static __global__ void
count_bags(const __grid_constant__ entries_t entries)
{
    int64_t bag = static_cast<int64_t>(unit_index());
    if (bag >= entries.bags.count) {
        return;
    }
    range_t range = bag_range(entries.bags, bag);
    int64_t count = 0;
    for (int64_t entry = range.begin; entry < range.end && entries.bags.mean; entry++) {
        count += entries.bags.index[entry] != -1;
    }
    entries.divisors[bag] = count > 0 ? static_cast<float>(count) : 1;
}

/* Writes for each entry the bag that it is in (`source`) and its factor (`scale`): its weight, or 1
 * divided by the divisor of a mean. */
static __global__ void
describe_entries(const __grid_constant__ entries_t entries)
{
    int64_t entry = static_cast<int64_t>(unit_index());
    if (entry >= entries.bags.entries) {
        return;
    }
    int64_t bag = find_bag(entries.bags, entry);
    entries.source[entry] = static_cast<uint32_t>(bag);
    entries.scale[entry] =
        entries.bags.weights ? entries.bags.weights[entry] : 1 / entries.divisors[bag];
}

/* ---- the host ---- */

/* Offsets of the arrays in the scratch memory, multiples of 256. */
struct places_t {
    size_t begins;
    size_t parts;
    size_t source;
    size_t scale;
    size_t divisors;
    size_t size;
};

/* Returns where the arrays lie in the scratch memory; sorting has the first part. */
static places_t
places_of(const cadre_cuda_operands_t *operands)
{
    int64_t count = operands->inputs[1]->count;
    int64_t rows = operands->out->shape[0];
    int64_t row_size = operands->out->count / rows;
    int64_t chunks = (count + CHUNK - 1) / CHUNK;
    places_t places = {};
    places.begins = cadre_cuda_sort_scratch(count);
    places.parts = places.begins + scratch_part(rows + 1, sizeof(uint32_t));
    places.source = places.parts + scratch_part(chunks * 2 * row_size, sizeof(float));
    places.size = places.source;
    if (operands->step->op == CADRE_OP_BAG_GRAD) {
        places.scale = places.source + scratch_part(count, sizeof(uint32_t));
        places.divisors = places.scale + scratch_part(count, sizeof(float));
        places.size = places.divisors + scratch_part(operands->inputs[2]->count, sizeof(float));
    }
    return places;
}

size_t
cadre_cuda_segments_scratch(const cadre_cuda_operands_t *operands)
{
    return places_of(operands).size;
}

/* Sorts the index by row and finds the segments (the sorted entries of each row); sets all of
 * `segments` but source and scale. `padding`: whether -1 is allowed in the index. */
static int
find_segments(const cadre_cuda_operands_t *operands, bool padding, void *stream,
              segments_t *segments)
{
    char *scratch = static_cast<char *>(operands->scratch);
    places_t places = places_of(operands);
    int64_t count = operands->inputs[1]->count;
    if (count > INT32_MAX) {
        return CADRE_ETOOLARGE;
    }
    segments->count = count;
    segments->chunks = (count + CHUNK - 1) / CHUNK;
    segments->rows = operands->out->shape[0];
    segments->row_size = operands->out->count / segments->rows;
    segments->from = operands->data[0];
    segments->out = operands->out_data;
    segments->parts = scratch + places.parts;
    uint32_t *begins = reinterpret_cast<uint32_t *>(scratch + places.begins);
    segments->begins = begins;
    sort_t sort = {static_cast<const int32_t *>(operands->data[1]),
                   count,
                   segments->rows,
                   padding,
                   operands->fault,
                   scratch,
                   stream};
    int status = cadre_cuda_sort(sort, &segments->sorted);
    begins_t find = {count, segments->rows, segments->sorted.rows, begins};
    return status < 0 ? status
                      : launch(find_begins, block_count(static_cast<uint64_t>(find.rows) + 1),
                               BLOCK, stream, find);
}

/* Launches the sums of chunks, and then the sums of segments that cross chunks. */
template <typename unit_t>
static int
launch_sums(const segments_t &segments, void *stream)
{
    uint64_t units = static_cast<uint64_t>(segments.chunks * segments.row_size);
    int status = launch(sum_chunks<unit_t>, block_count(units), BLOCK, stream, segments);
    units = static_cast<uint64_t>(segments.rows * segments.row_size);
    return status < 0 ? status
                      : launch(add_parts<unit_t>, block_count(units), BLOCK, stream, segments);
}

/* Enqueues the sums: in vectors of four columns where row size and alignment allow it. */
static int
sum_segments(segments_t *segments, void *stream)
{
    bool vectors = segments->row_size % VECTOR == 0 && is_vector_aligned(segments->from) &&
                   is_vector_aligned(segments->out);
    if (!vectors) {
        return launch_sums<float>(*segments, stream);
    }
    segments->row_size /= VECTOR;
    return launch_sums<vector_t<float>>(*segments, stream);
}

/* Enqueues the sum of the input's rows into the output's rows that their indexes name. */
int
cadre_cuda_scatter(const cadre_cuda_operands_t *operands, void *stream)
{
    if (operands->out->count == 0) {
        return 0;
    }
    segments_t segments = {};
    int status = find_segments(operands, false, stream, &segments);
    return status < 0 ? status : sum_segments(&segments, stream);
}

/* Computes the gradient of the table that bags are taken from. The entries of all bags are sorted
 * by the row that they name, padding apart, so that each row has one segment of them; a row's
 * gradient is then the sum over its segment of the gradient of the bag that an entry is in
 * (`source`), times the entry's weight divided by the bag's divisor (`scale`). No sum needs an
 * atomic operation. */
int
cadre_cuda_bag_grad(const cadre_cuda_operands_t *operands, void *stream)
{
    if (operands->step->attributes[CADRE_BAG_GRAD_OF_WEIGHTS]) {
        return cadre_cuda_bag_weights_grad(operands, stream);
    }
    if (operands->out->count == 0) {
        return 0;
    }
    segments_t segments = {};
    int status = find_segments(operands, true, stream, &segments);
    if (status < 0) {
        return status;
    }
    char *scratch = static_cast<char *>(operands->scratch);
    places_t places = places_of(operands);
    entries_t entries = {bags_of(operands, operands->out),
                         reinterpret_cast<float *>(scratch + places.divisors),
                         reinterpret_cast<uint32_t *>(scratch + places.source),
                         reinterpret_cast<float *>(scratch + places.scale)};
    segments.source = entries.source;
    segments.scale = entries.scale;
    status = launch(count_bags, block_count(static_cast<uint64_t>(entries.bags.count)), BLOCK,
                    stream, entries);
    uint64_t count = static_cast<uint64_t>(entries.bags.entries);
    status =
        status < 0 ? status : launch(describe_entries, block_count(count), BLOCK, stream, entries);
    return status < 0 ? status : sum_segments(&segments, stream);
}
