/*
 * builder_recurrent - gru and lstm over sequences [batch, positions, numbers], by the formulas of
 * Keras 3 (keras/src/layers/rnn/gru.py and lstm.py, `call` of their cells), unrolled: each position
 * has nodes of its own in the graph. A device needs no notion of a loop; the price is that a
 * program grows with the length of its sequences.
 *
 * The input projection (x times the kernel, for all gates) is one matrix product for all positions.
 * It is cut into positions as a tree, into SPLIT parts at each level: the gradient of a slice is as
 * large as the tensor it was cut from, so cutting each position out of the whole projection would
 * take time quadratic in the number of positions.
 */
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/graph/program_data.h"

enum { SPLIT = 4, GRU_GATES = 3, LSTM_GATES = 4 };

static const cadre_node_t none = {0};

typedef struct {
    const char *name;
    int64_t gates;
    bool has_two_biases; /* one of each projection, of input and output: Keras' reset_after */
} kind_t;

static const kind_t gru = {"gru", GRU_GATES, true};
static const kind_t lstm = {"lstm", LSTM_GATES, false};

/* A layer that is being unrolled. */
typedef struct {
    cadre_program_t *program;
    int64_t units;
    int64_t positions;
    cadre_node_t inputs[CADRE_RECURRENT_STEPS_MAX];  /* [B, gates * U]: each input, projected */
    cadre_node_t outputs[CADRE_RECURRENT_STEPS_MAX]; /* [B, U] */
} unrolled_t;

/* ---- checks ---- */

/* Returns whether x is a sequence whose positions can be unrolled; if not, notes the mistake. */
static bool
can_unroll(cadre_program_t *self, const kind_t *kind, cadre_node_t x)
{
    const cadre_extents_t *shape = &cadre_program_at(self, x)->shape;
    char text[CADRE_EXTENTS_TEXT_SIZE];
    cadre_extents_text(shape, cadre_program_symbols(self), text);

    int status = 0;
    if (shape->rank != 3 || shape->extents[1].symbol >= 0) {
        status = cadre_fail(CADRE_ESHAPE,
                            "%s: needs sequences [batch,positions,numbers], of which the second is "
                            "a number, not %s",
                            kind->name, text);
    } else if (shape->extents[1].factor > CADRE_RECURRENT_STEPS_MAX) {
        status = cadre_fail(CADRE_ETOOLARGE, "%s: %s has more than %d positions", kind->name, text,
                            CADRE_RECURRENT_STEPS_MAX);
    }
    if (status < 0) {
        cadre_program_mistake(self, status);
    }
    return status == 0;
}

/* Returns whether a weight has the shape `wanted`; if not, notes the mistake. */
static bool
has_shape(cadre_program_t *self, const kind_t *kind, const char *what, cadre_node_t weight,
          const cadre_extents_t *wanted)
{
    const cadre_extents_t *shape = &cadre_program_at(self, weight)->shape;
    if (cadre_extents_equal(shape, wanted)) {
        return true;
    }

    const char *const *symbols = cadre_program_symbols(self);
    char left[CADRE_EXTENTS_TEXT_SIZE];
    char right[CADRE_EXTENTS_TEXT_SIZE];
    cadre_program_mistake(self, cadre_fail(CADRE_ESHAPE, "%s: the %s is %s, not %s", kind->name,
                                           what, cadre_extents_text(shape, symbols, left),
                                           cadre_extents_text(wanted, symbols, right)));
    return false;
}

/* Returns whether x [B, T, D] and the weights fit one another: kernel [D, gates * U], recurrent
 * kernel [U, gates * U], bias [gates * U], or [2, gates * U] with two biases. Notes the first
 * mistake in the program. */
static bool
goes_together(cadre_program_t *self, const kind_t *kind, cadre_node_t x,
              const cadre_node_t weights[3])
{
    bool there = cadre_program_has(self, x, kind->name);
    for (int i = 0; there && i < 3; i++) {
        there = cadre_program_has(self, weights[i], kind->name);
    }
    if (!there || !can_unroll(self, kind, x)) {
        return false;
    }

    cadre_extents_t recurrent = cadre_program_at(self, weights[1])->shape;
    cadre_extent_t units = recurrent.rank > 0 ? recurrent.extents[0] : cadre_extent_number(1);
    cadre_extent_t columns = {kind->gates * units.factor, units.symbol};
    cadre_extent_t numbers = cadre_program_at(self, x)->shape.extents[2];
    cadre_extents_t square = {.rank = 2, .extents = {units, columns}};
    cadre_extents_t flat = {.rank = 2, .extents = {numbers, columns}};
    cadre_extents_t bias = {.rank = 1, .extents = {columns}};
    if (kind->has_two_biases) {
        bias = (cadre_extents_t){.rank = 2, .extents = {cadre_extent_number(2), columns}};
    }
    return has_shape(self, kind, "recurrent kernel", weights[1], &square) &&
           has_shape(self, kind, "kernel", weights[0], &flat) &&
           has_shape(self, kind, "bias", weights[2], &bias);
}

/* ---- positions ---- */

/* Cuts `rows` [count, B, gates * U] into `count` nodes [B, gates * U]: into SPLIT parts, and each
 * part likewise, since the gradient of a slice is as large as what it was cut from. */
static void
cut_positions(cadre_program_t *self, cadre_node_t rows, int64_t count, cadre_node_t *out)
{
    if (rows.id == 0) {
        return;
    }
    if (count == 1) {
        cadre_extents_t shape = cadre_program_at(self, rows)->shape;
        shape.rank = 2;
        shape.extents[0] = shape.extents[1];
        shape.extents[1] = shape.extents[2];
        *out = cadre_program_emit_reshape(self, rows, &shape);
        return;
    }

    int64_t part = (count + SPLIT - 1) / SPLIT;
    for (int64_t begin = 0; begin < count; begin += part) {
        int64_t length = count - begin < part ? count - begin : part;
        cadre_node_t cut = cadre_op_slice(self, rows, 0, begin, length);
        cut_positions(self, cut, length, out + begin);
    }
}

/* Concatenates `count` nodes along axis 1, in rounds: one concat takes at most CADRE_OP_INPUTS_MAX
 * nodes. Writes over `nodes`. */
static cadre_node_t
join(cadre_program_t *self, cadre_node_t *nodes, int64_t count)
{
    while (count > 1) {
        int64_t joined = 0;
        for (int64_t begin = 0; begin < count; begin += CADRE_OP_INPUTS_MAX) {
            int64_t length = cadre_min_i64(count - begin, CADRE_OP_INPUTS_MAX);
            nodes[joined++] = cadre_op_concat(self, nodes + begin, (int)length, 1);
        }
        count = joined;
    }
    return nodes[0];
}

/* Computes the input projection (x times kernel plus bias) of all positions at once, and cuts it
 * into self->inputs, one node for each position. */
static void
begin_unrolled(unrolled_t *self, cadre_node_t x, cadre_node_t kernel, cadre_node_t bias)
{
    cadre_program_t *p = self->program;
    cadre_node_t rows = cadre_op_transpose(p, x, (const int[]){1, 0, 2});
    cut_positions(p, cadre_op_dense(p, rows, kernel, bias), self->positions, self->inputs);
}

/* Returns the last output [B, U], or all outputs as a sequence [B, T, U]. */
static cadre_node_t
end_unrolled(unrolled_t *self, int return_sequences)
{
    cadre_node_t last = self->outputs[self->positions - 1];
    if (!return_sequences || last.id == 0) {
        return last;
    }

    cadre_extents_t shape = cadre_program_at(self->program, last)->shape;
    shape.rank = 3;
    shape.extents[2] = shape.extents[1];
    shape.extents[1] = cadre_extent_number(1);
    for (int64_t i = 0; i < self->positions; i++) {
        self->outputs[i] = cadre_program_emit_reshape(self->program, self->outputs[i], &shape);
    }
    return join(self->program, self->outputs, self->positions);
}

/* Returns `count` gates from number `first` on, sliced out of `all` [B, gates * U]. */
static cadre_node_t
gates(const unrolled_t *self, cadre_node_t all, int64_t first, int64_t count)
{
    return cadre_op_slice(self->program, all, -1, first * self->units, count * self->units);
}

/* Returns zeros [B, U]: the output and state before the first position. */
static cadre_node_t
nothing(const unrolled_t *self)
{
    if (self->inputs[0].id == 0) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self->program, self->inputs[0])->shape;
    shape.extents[1] = cadre_extent_number(self->units);
    return cadre_program_emit_broadcast(self->program, cadre_op_const_f32(self->program, 0), &shape,
                                        false);
}

/* Makes an empty layer for the positions of x [B, T, D] and the units of the recurrent kernel [U,
 * gates * U]. cadre_free ends it. */
static unrolled_t *
unrolled_new(cadre_program_t *program, cadre_node_t x, cadre_node_t recurrent)
{
    unrolled_t *self = cadre_calloc(1, sizeof(*self));
    self->program = program;
    self->positions = cadre_program_at(program, x)->shape.extents[1].factor;
    self->units = cadre_program_at(program, recurrent)->shape.extents[0].factor;
    return self;
}

/* ---- gru ---- */

/* Returns one bias [3 * U] of the two in `bias` [2, 3 * U]: 0 of the input, 1 of the recurrent
 * projection. */
static cadre_node_t
bias_row(const unrolled_t *self, cadre_node_t bias, int64_t row)
{
    cadre_extents_t shape = {.rank = 1, .extents = {cadre_extent_number(GRU_GATES * self->units)}};
    return cadre_program_emit_reshape(self->program, cadre_op_slice(self->program, bias, 0, row, 1),
                                      &shape);
}

/* Returns the output of one position: from `before`, the output of the position before it, and both
 * projections, `inputs` of the input and `inner` of `before`. Gates are in the order update, reset,
 * candidate. */
static cadre_node_t
gru_step(const unrolled_t *self, cadre_node_t inputs, cadre_node_t inner, cadre_node_t before)
{
    cadre_program_t *p = self->program;
    cadre_node_t both =
        cadre_op_sigmoid(p, cadre_op_add(p, gates(self, inputs, 0, 2), gates(self, inner, 0, 2)));
    cadre_node_t update = gates(self, both, 0, 1);
    cadre_node_t reset = gates(self, both, 1, 1);
    cadre_node_t candidate =
        cadre_op_tanh(p, cadre_op_add(p, gates(self, inputs, 2, 1),
                                      cadre_op_mul(p, reset, gates(self, inner, 2, 1))));

    /* update * before + (1 - update) * candidate, with one product less. */
    cadre_node_t away = cadre_op_sub(p, before, candidate);
    return cadre_op_add(p, candidate, cadre_op_mul(p, update, away));
}

/* Adds a GRU layer: position by position, the recurrent projection of the output before and the new
 * output. */
cadre_node_t
cadre_op_gru(cadre_program_t *self, cadre_node_t x, cadre_node_t kernel, cadre_node_t recurrent,
             cadre_node_t bias, int return_sequences)
{
    if (!goes_together(self, &gru, x, (const cadre_node_t[]){kernel, recurrent, bias})) {
        return none;
    }

    cadre_auto(cadre_free) unrolled_t *unrolled = unrolled_new(self, x, recurrent);
    begin_unrolled(unrolled, x, kernel, bias_row(unrolled, bias, 0));
    cadre_node_t recurrent_bias = bias_row(unrolled, bias, 1);
    cadre_node_t output = nothing(unrolled);
    for (int64_t i = 0; i < unrolled->positions; i++) {
        cadre_node_t inner = cadre_op_dense(self, output, recurrent, recurrent_bias);
        output = gru_step(unrolled, unrolled->inputs[i], inner, output);
        unrolled->outputs[i] = output;
    }
    return end_unrolled(unrolled, return_sequences);
}

/* ---- lstm ---- */

/* Replaces the cell's state by that of the next position, and returns the output there. `all` is
 * the sum of both projections, with gates in the order input, forget, candidate, output. */
static cadre_node_t
lstm_step(const unrolled_t *self, cadre_node_t all, cadre_node_t *state)
{
    cadre_program_t *p = self->program;
    cadre_node_t both = cadre_op_sigmoid(p, gates(self, all, 0, 2));
    cadre_node_t candidate = cadre_op_tanh(p, gates(self, all, 2, 1));
    cadre_node_t out = cadre_op_sigmoid(p, gates(self, all, 3, 1));
    cadre_node_t taken = cadre_op_mul(p, gates(self, both, 0, 1), candidate);
    *state = cadre_op_add(p, cadre_op_mul(p, gates(self, both, 1, 1), *state), taken);
    return cadre_op_mul(p, out, cadre_op_tanh(p, *state));
}

/* Adds an LSTM layer: position by position, the sum of both projections, the new state and the new
 * output. */
cadre_node_t
cadre_op_lstm(cadre_program_t *self, cadre_node_t x, cadre_node_t kernel, cadre_node_t recurrent,
              cadre_node_t bias, int return_sequences)
{
    if (!goes_together(self, &lstm, x, (const cadre_node_t[]){kernel, recurrent, bias})) {
        return none;
    }

    cadre_auto(cadre_free) unrolled_t *unrolled = unrolled_new(self, x, recurrent);
    begin_unrolled(unrolled, x, kernel, bias);
    cadre_node_t state = nothing(unrolled);
    cadre_node_t output = state;
    for (int64_t i = 0; i < unrolled->positions; i++) {
        cadre_node_t inner = cadre_op_matmul(self, output, recurrent);
        cadre_node_t all = cadre_op_add(self, unrolled->inputs[i], inner);
        output = lstm_step(unrolled, all, &state);
        unrolled->outputs[i] = output;
    }
    return end_unrolled(unrolled, return_sequences);
}
