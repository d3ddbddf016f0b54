/*
 * cpu_chain - element operations, one or several in one pass over memory.
 *
 * A block of the output goes through all links before the next block begins, so what one link
 * leaves for another stays in the L1 cache. How a block is made depends on the length of the walk's
 * inner loop (a row). A long row is cut into blocks; a broadcast input is then one number or a
 * stretch of memory. Several short rows make one block; broadcast inputs are written out for it,
 * and since a block begins with a row, an input that is the same for every row is written out only
 * once.
 */
#include <string.h>

#include "worker/device/cpu.h"
#include "worker/device/cpu_vector.h"

enum {
    BLOCK = CADRE_CPU_BLOCK,
    LONG = 16 * BLOCK, /* elements of a block of a single operation, which need not stay in L1 */
    SHORT = 128,       /* rows with fewer elements are joined to blocks */
    SPREAD = 16        /* copies of a number that are written at once */
};

typedef enum {
    WHOLE,   /* of the output's shape: read element by element beside the output */
    NUMBER,  /* one number for all elements of the output */
    PATTERN, /* the same row for every row of the output */
    VARYING, /* broadcast in another way: another row or number from row to row */
} reading_t;

/* What all threads that run parts of a step share. */
typedef struct {
    const cadre_operands_t *operands;
    const cadre_chain_t *chain;
    int64_t inner;    /* elements of an inner loop */
    int64_t rows;     /* inner loops */
    int64_t together; /* rows per block, if they are short; else 0 */
    int64_t piece;    /* elements of a block, if they are long */
    int64_t pieces;   /* blocks per row */
    reading_t readings[CADRE_CHAIN_INPUTS_MAX];
} job_t;

/* The buffers of one thread. */
typedef struct {
    cadre_cpu_source_t sources[CADRE_CHAIN_INPUTS_MAX + CADRE_CHAIN_LINKS_MAX]; /* what links read
                                                                                   in a block */
    _Alignas(64) cadre_real_t results[CADRE_CHAIN_LINKS_MAX - 1][BLOCK]; /* of all links but the
                                                                            last */
    _Alignas(64)
        cadre_real_t copies[CADRE_CHAIN_INPUTS_MAX][BLOCK + SPREAD]; /* broadcast inputs, written
                                                                        out */
} desk_t;

/* Runs all links (operations) of the chain for `count` elements of the output from `first` on; the
 * sources of the inputs are set in the desk. The last link writes the output, each other one a
 * buffer that later links read. */
static void
run_links(const job_t *self, desk_t *desk, int64_t first, int64_t count)
{
    int input_count = self->operands->step->input_count;
    for (int k = 0; k < self->chain->link_count; k++) {
        const cadre_chain_link_t *link = &self->chain->links[k];
        bool last = k == self->chain->link_count - 1;
        cadre_real_t *out =
            last ? (cadre_real_t *)self->operands->out_data + first : desk->results[k];
        const cadre_cpu_source_t *const sources[3] = {&desk->sources[link->sources[0]],
                                                      &desk->sources[link->sources[1]],
                                                      &desk->sources[link->sources[2]]};
        cadre_cpu_link(link, out, sources, count);
        desk->sources[input_count + k] = (cadre_cpu_source_t){.data = out, .step = 1};
    }
}

/* Returns the offset of the first element of `row` in input `i`. */
static int64_t
first_of_row(const cadre_strided_t *walk, int i, int64_t row)
{
    int64_t at = walk->offset[i];
    for (int axis = walk->rank - 2; axis > 0; axis--) {
        at += row % walk->size[axis] * walk->stride[i][axis];
        row /= walk->size[axis];
    }
    return walk->rank > 1 ? at + row * walk->stride[i][0] : at;
}

/* ---- long rows ---- */

/* Runs the chain for one piece of a long row, from element `first` of the row on. An input is read
 * where the walk has it: its elements, or one number again and again (stride 0). */
static void
run_piece(const job_t *self, desk_t *desk, int64_t row, int64_t first)
{
    const cadre_strided_t *walk = &self->operands->step->walk;
    int64_t left = self->inner - first;
    for (int i = 0; i < self->operands->step->input_count; i++) {
        int64_t stride = walk->stride[i][walk->rank - 1];
        const cadre_real_t *data = self->operands->data[i];
        desk->sources[i] = (cadre_cpu_source_t){
            .data = data + first_of_row(walk, i, row) + first * stride, .step = stride};
    }
    run_links(self, desk, row * self->inner + first, left < self->piece ? left : self->piece);
}

/* Runs pieces begin..end of all rows; pieces are counted row by row. */
static void
run_pieces(const void *context, int64_t begin, int64_t end)
{
    const job_t *self = context;
    CADRE_UNINITIALIZED desk_t desk;
    int64_t row = begin / self->pieces;
    int64_t first = begin % self->pieces * self->piece;
    for (int64_t at = begin; at < end; at++) {
        run_piece(self, &desk, row, first);
        first += self->piece;
        if (first >= self->inner) {
            first = 0;
            row++;
        }
    }
}

/* ---- short rows ---- */

/* Writes each of `rows` numbers `count` times; after the last one up to SPREAD - 1 copies too many,
 * for which `to` has room. */
CADRE_VECTOR static void
repeat(cadre_real_t *to, const cadre_real_t *from, int64_t stride, int64_t rows, int64_t count)
{
    for (int64_t r = 0; r < rows; r++, to += count) {
        const cadre_real_t one = from[r * stride];
        for (int64_t k = 0; k < count; k += SPREAD) {
            for (int j = 0; j < SPREAD; j++) {
                to[k + j] = one;
            }
        }
    }
}

/* Writes broadcast input `i` out, for `rows` rows from `row` on, into the thread's copies. */
static void
copy_rows(const job_t *self, desk_t *desk, int i, int64_t row, int64_t rows)
{
    const cadre_strided_t *walk = &self->operands->step->walk;
    const cadre_real_t *data = self->operands->data[i];
    bool moves = walk->stride[i][walk->rank - 1] != 0;
    cadre_real_t *to = desk->copies[i];
    if (!moves && walk->rank == 2) {
        repeat(to, data + first_of_row(walk, i, row), walk->stride[i][0], rows, self->inner);
        return;
    }
    for (int64_t r = row; r < row + rows; r++, to += self->inner) {
        const cadre_real_t *from = data + first_of_row(walk, i, r);
        if (moves) {
            memcpy(to, from, (size_t)self->inner * sizeof(*to));
        } else {
            repeat(to, from, 0, 1, self->inner);
        }
    }
}

/* Runs the chain for `rows` short rows from `row` on, which make one block. Each input is read as
 * its reading says: where it is, as one number, or from copies that were written out. */
static void
run_rows(const job_t *self, desk_t *desk, int64_t row, int64_t rows)
{
    for (int i = 0; i < self->operands->step->input_count; i++) {
        const cadre_real_t *data = self->operands->data[i];
        cadre_cpu_source_t *source = &desk->sources[i];
        if (self->readings[i] == VARYING) {
            copy_rows(self, desk, i, row, rows);
        }
        if (self->readings[i] == WHOLE) {
            *source = (cadre_cpu_source_t){.data = data + row * self->inner, .step = 1};
        } else if (self->readings[i] == NUMBER) {
            *source = (cadre_cpu_source_t){.data = data, .step = 0};
        } else {
            *source = (cadre_cpu_source_t){.data = desk->copies[i], .step = 1};
        }
    }
    run_links(self, desk, row * self->inner, rows * self->inner);
}

/* Runs blocks begin..end, each of several short rows. An input that is the same for every row
 * (PATTERN) is written out once, for all of them. */
static void
run_blocks(const void *context, int64_t begin, int64_t end)
{
    const job_t *self = context;
    CADRE_UNINITIALIZED desk_t desk;
    for (int i = 0; i < self->operands->step->input_count; i++) {
        if (self->readings[i] == PATTERN) {
            copy_rows(self, &desk, i, 0, self->together);
        }
    }
    for (int64_t at = begin; at < end; at++) {
        int64_t left = self->rows - at * self->together;
        run_rows(self, &desk, at * self->together, left < self->together ? left : self->together);
    }
}

/* ---- the step ---- */

/* Returns how an input is read, from its strides: whether they are those of the output (WHOLE), and
 * whether outer or inner axes move it. */
static reading_t
reading_of(const cadre_strided_t *walk, int input)
{
    bool whole = true;
    bool outer_moves = false;
    int64_t step = 1;
    for (int axis = walk->rank - 1; axis >= 0; axis--) {
        int64_t stride = walk->stride[input][axis];
        whole = whole && stride == step;
        outer_moves = outer_moves || (axis < walk->rank - 1 && stride != 0);
        step *= walk->size[axis];
    }

    if (whole) {
        return WHOLE;
    }
    if (outer_moves) {
        return VARYING;
    }

    bool inner_moves = walk->stride[input][walk->rank - 1] != 0;
    return inner_moves ? PATTERN : NUMBER;
}

/* Returns the cost of a link for one element, in additions. */
static int64_t
link_cost(const cadre_chain_link_t *link)
{
    if (link->op != CADRE_OP_MAP1) {
        return 1;
    }
    switch ((cadre_map1_t)link->function) {
    case CADRE_MAP1_NEG:
    case CADRE_MAP1_RECIP:
    case CADRE_MAP1_SQUARE:
    case CADRE_MAP1_ABS:
    case CADRE_MAP1_SIGN:
    case CADRE_MAP1_STEP:
    case CADRE_MAP1_RELU:
        break;
    case CADRE_MAP1_SQRT:
    case CADRE_MAP1_RSQRT:
        return 2;
    case CADRE_MAP1_EXP:
    case CADRE_MAP1_LOG:
    case CADRE_MAP1_SIGMOID:
        return 5;
    case CADRE_MAP1_TANH:
    case CADRE_MAP1_SOFTPLUS:
        return 7;
    case CADRE_MAP1_GELU:
        return 12;
    case CADRE_MAP1_DGELU:
        return 16;
    }
    return 1;
}

/* Returns the cost of a chain for one element, in additions. */
static int64_t
chain_cost(const cadre_chain_t *chain)
{
    int64_t cost = 0;
    for (int k = 0; k < chain->link_count; k++) {
        cost += link_cost(&chain->links[k]);
    }
    return cost;
}

/* Runs a chain on the pool's threads: by blocks of several rows if rows are short, else by pieces
 * of rows. `grain`: elements for which it is worth waking a thread. */
static void
run_chain(const cadre_operands_t *operands, const cadre_chain_t *chain)
{
    const cadre_strided_t *walk = &operands->step->walk;
    if (operands->out->count == 0) {
        return;
    }
    job_t self = {.operands = operands, .chain = chain, .inner = walk->size[walk->rank - 1]};
    self.rows = operands->out->count / self.inner;
    for (int i = 0; i < operands->step->input_count; i++) {
        self.readings[i] = reading_of(walk, i);
    }
    int64_t grain = CADRE_CPU_PART_COST / chain_cost(chain);
    if (self.rows > 1 && self.inner < SHORT) {
        self.together = BLOCK / self.inner;
        int64_t blocks = (self.rows + self.together - 1) / self.together;
        cadre_cpu_pool_run(operands->pool, blocks, grain / BLOCK, run_blocks, &self);
    } else {
        /* Only what one link leaves for another has to stay in the L1 cache. */
        int64_t most = chain->link_count == 1 ? LONG : BLOCK;
        self.piece = self.inner < most ? self.inner : most;
        self.pieces = (self.inner + self.piece - 1) / self.piece;
        cadre_cpu_pool_run(operands->pool, self.rows * self.pieces, grain / self.piece, run_pieces,
                           &self);
    }
}

/* Runs a step that is a chain of element operations. */
int
cadre_cpu_chain(const cadre_operands_t *operands)
{
    run_chain(operands, operands->chain);
    return 0;
}

/* Runs a step that is a single element operation: as a chain of one link, but for comparisons of
 * i32, and for f64 and i64. The last input tells the dtype, since a condition is always f32. */
int
cadre_cpu_element(const cadre_operands_t *operands)
{
    const cadre_plan_step_t *step = operands->step;
    cadre_dtype_t dtype = operands->inputs[step->input_count - 1]->dtype;
    if (dtype == CADRE_I32) {
        cadre_cpu_compare(operands);
        return 0;
    }
    if (dtype == CADRE_F64 || dtype == CADRE_I64) {
        cadre_cpu_wide_element(operands);
        return 0;
    }
    cadre_chain_t chain = {
        .link_count = 1,
        .links = {
            {.op = step->op, .function = step->attributes[CADRE_FUNCTION], .sources = {0, 1, 2}}}};
    run_chain(operands, &chain);
    return 0;
}
