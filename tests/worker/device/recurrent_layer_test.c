/*
 * gru and lstm against the formulas of Keras, position by position in double.
 */
#include <math.h>

#include "tests/worker/device/run_program.h"

TestSuite(recurrent_layer, .timeout = 240);

enum { BATCH = 3, NUMBERS = 2, UNITS = 4, GATES_MAX = 4 };

/* x [B, T, D], kernel, recurrent kernel, bias. */
typedef struct {
    cadre_tensor_t tensors[4];
    int64_t positions;
    int64_t gates;
    bool is_gru;
} layer_t;

static layer_t
layer_of(bool is_gru, int64_t positions)
{
    layer_t self = {.positions = positions, .gates = is_gru ? 3 : 4, .is_gru = is_gru};
    int64_t columns = self.gates * UNITS;
    self.tensors[0] =
        random_tensor(CADRE_F32, (int64_t[]){BATCH, positions, NUMBERS}, 3, (uint64_t)positions);
    self.tensors[1] = random_tensor(CADRE_F32, (int64_t[]){NUMBERS, columns}, 2, 21);
    self.tensors[2] = random_tensor(CADRE_F32, (int64_t[]){UNITS, columns}, 2, 22);
    self.tensors[3] = is_gru ? random_tensor(CADRE_F32, (int64_t[]){2, columns}, 2, 23)
                             : random_tensor(CADRE_F32, &columns, 1, 24);
    return self;
}

static double
sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Column `column` of values [count] times a matrix of `columns` columns. */
static double
product(const double *values, int64_t count, const cadre_tensor_t *matrix, int64_t column)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i] * (double)f32_at(matrix, i * matrix->shape[1] + column);
    }
    return sum;
}

/* The output and the state of unit `unit` after one more position; `inputs` and `inner` are the
 * parts of its gates. */
static double
gru_output(const double inputs[GATES_MAX], const double inner[GATES_MAX], double before)
{
    double update = sigmoid(inputs[0] + inner[0]);
    double reset = sigmoid(inputs[1] + inner[1]);
    double candidate = tanh(inputs[2] + reset * inner[2]);
    return update * before + (1 - update) * candidate;
}

static double
lstm_output(const double inputs[GATES_MAX], const double inner[GATES_MAX], double *state)
{
    double gates[GATES_MAX];
    for (int i = 0; i < GATES_MAX; i++) {
        gates[i] = inputs[i] + inner[i];
    }
    *state = sigmoid(gates[1]) * *state + sigmoid(gates[0]) * tanh(gates[2]);
    return sigmoid(gates[3]) * tanh(*state);
}

/* Moves the outputs of one row on by the numbers of a position. */
static void
step(const layer_t *self, const double *numbers, double output[UNITS], double state[UNITS])
{
    double before[UNITS];
    memcpy(before, output, sizeof(before));
    for (int64_t unit = 0; unit < UNITS; unit++) {
        double inputs[GATES_MAX] = {0};
        double inner[GATES_MAX] = {0};
        for (int64_t gate = 0; gate < self->gates; gate++) {
            int64_t column = gate * UNITS + unit;
            inputs[gate] = product(numbers, NUMBERS, &self->tensors[1], column) +
                           (double)f32_at(&self->tensors[3], column);
            inner[gate] = product(before, UNITS, &self->tensors[2], column);
            if (self->is_gru) {
                inner[gate] += (double)f32_at(&self->tensors[3], self->gates * UNITS + column);
            }
        }
        output[unit] = self->is_gru ? gru_output(inputs, inner, before[unit])
                                    : lstm_output(inputs, inner, &state[unit]);
    }
}

static cadre_tensor_t
run_layer(const layer_t *self, int sequences)
{
    static const char *const names[] = {"x", "kernel", "recurrent", "bias"};
    cadre_program_t *p = cadre_program_new("layer");
    cadre_node_t nodes[4];
    for (int i = 0; i < 4; i++) {
        nodes[i] = arg_like(p, names[i], &self->tensors[i]);
    }
    cadre_node_t y = self->is_gru
                         ? cadre_op_gru(p, nodes[0], nodes[1], nodes[2], nodes[3], sequences)
                         : cadre_op_lstm(p, nodes[0], nodes[1], nodes[2], nodes[3], sequences);
    return run_once(p, y, self->tensors);
}

/* All outputs, and the last one, which the layer gives alone. */
static void
check_layer(bool is_gru, int64_t positions)
{
    layer_t layer = layer_of(is_gru, positions);
    cadre_tensor_t all = run_layer(&layer, 1);
    cadre_tensor_t last = run_layer(&layer, 0);
    cr_assert(all.rank == 3 && all.shape[1] == positions && all.shape[2] == UNITS);
    cr_assert(last.rank == 2 && last.shape[0] == BATCH && last.shape[1] == UNITS);
    for (int64_t row = 0; row < BATCH; row++) {
        double output[UNITS] = {0};
        double state[UNITS] = {0};
        for (int64_t at = 0; at < positions; at++) {
            double numbers[NUMBERS];
            for (int64_t i = 0; i < NUMBERS; i++) {
                numbers[i] =
                    (double)f32_at(&layer.tensors[0], (row * positions + at) * NUMBERS + i);
            }
            step(&layer, numbers, output, state);
            for (int64_t unit = 0; unit < UNITS; unit++) {
                float got = f32_at(&all, (row * positions + at) * UNITS + unit);
                cr_assert(fabs((double)got - output[unit]) < 2e-5, "%s, row %d at %d: %g, not %g",
                          is_gru ? "gru" : "lstm", (int)row, (int)at, (double)got, output[unit]);
            }
        }
        for (int64_t unit = 0; unit < UNITS; unit++) {
            cr_assert(fabs((double)f32_at(&last, row * UNITS + unit) - output[unit]) < 2e-5);
        }
    }
    cadre_tensor_fini(&all);
    cadre_tensor_fini(&last);
    for (int i = 0; i < 4; i++) {
        cadre_tensor_fini(&layer.tensors[i]);
    }
}

/* Positions that are cut out in one round and in several, even and with a rest, and outputs that
 * are joined in one round and in two, up to the most that are unrolled. */
Test(recurrent_layer, follows_the_formulas_at_each_position)
{
    static const int64_t positions[] = {1, 2, 4, 5, 16, 17, 33, 256};
    for (size_t i = 0; i < CADRE_COUNT_OF(positions); i++) {
        check_layer(true, positions[i]);
        check_layer(false, positions[i]);
    }
}
