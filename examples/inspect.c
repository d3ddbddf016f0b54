/*
 * inspect - a program that runs one closure by hand and looks inside: no job, no other process.
 *
 *     build/release/bin/examples/inspect
 *
 * It builds a small network, evaluates it with weights of its own, prints a hidden layer, the loss
 * and the gradients that a worker would push, and compares one gradient with the difference
 * quotient.
 */
#include <cadre/inspection.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 4, INPUTS = 3, HIDDEN = 2, CLASSES = 2 };

typedef struct {
    cadre_program_t *program;
    cadre_node_t hidden;
} network_t;

static const float x_of[ROWS][INPUTS] = {{0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {1, 1, 1}};
static const int32_t y_of[ROWS] = {0, 0, 1, 1};

static network_t
new_network(void)
{
    network_t self = {.program = cadre_program_new("network")};
    cadre_program_t *p = self.program;
    const cadre_dim_t rows[] = {cadre_dim_symbol("B"), cadre_dim(INPUTS)};
    const cadre_node_t none = {0};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, rows, 2);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_I32, rows, 1);
    cadre_node_t w1 = cadre_op_var(p, "w1", (const int64_t[]){INPUTS, HIDDEN}, 2);
    cadre_node_t w2 = cadre_op_var(p, "w2", (const int64_t[]){HIDDEN, CLASSES}, 2);
    self.hidden = cadre_op_relu(p, cadre_op_dense(p, x, w1, none));
    cadre_node_t loss =
        cadre_op_softmax_cross_entropy(p, cadre_op_dense(p, self.hidden, w2, none), y);
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    return self;
}

static void
print(const char *name, const cadre_tensor_t *tensor)
{
    const float *values = tensor->data;
    printf("%s:", name);
    for (int64_t i = 0; i < cadre_tensor_count(tensor); i++) {
        printf(" %.4f", (double)values[i]);
    }
    printf("\n");
}

/* Runs the network with these weights of its first layer. */
static int
evaluate(const network_t *network, const float w1_of[INPUTS * HIDDEN],
         cadre_inspection_t **inspection)
{
    const float w2_of[HIDDEN * CLASSES] = {0.5f, -0.5f, 0.25f, 1};
    cadre_tensor_t x = cadre_tensor_view(CADRE_F32, x_of, (const int64_t[]){ROWS, INPUTS}, 2);
    cadre_tensor_t y = cadre_tensor_view(CADRE_I32, y_of, (const int64_t[]){ROWS}, 1);
    cadre_tensor_t w1 = cadre_tensor_view(CADRE_F32, w1_of, (const int64_t[]){INPUTS, HIDDEN}, 2);
    cadre_tensor_t w2 = cadre_tensor_view(CADRE_F32, w2_of, (const int64_t[]){HIDDEN, CLASSES}, 2);
    const cadre_argument_t arguments[] = {{"x", &x}, {"y", &y}};
    const cadre_argument_t variables[] = {{"w1", &w1}, {"w2", &w2}};
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = arguments;
    options.tensor_count = 2;
    options.variables = variables;
    options.variable_count = 2;
    options.nodes = &network->hidden;
    options.node_count = 1;
    return cadre_program_evaluate(network->program, &options, inspection);
}

/* The first gradient of w1 as (loss(w + h) - loss(w - h)) / 2h. */
static int
difference_quotient(const network_t *network, const float w1_of[INPUTS * HIDDEN], double *quotient)
{
    const float step = 0.01f;
    double losses[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        float moved[INPUTS * HIDDEN];
        cadre_inspection_t *inspection = NULL;
        for (int k = 0; k < INPUTS * HIDDEN; k++) {
            moved[k] = w1_of[k];
        }
        moved[0] += i == 0 ? step : -step;
        int s = evaluate(network, moved, &inspection);
        s = s ? s : cadre_tensor_number(cadre_inspection_result(inspection, "loss"), &losses[i]);
        cadre_inspection_destroy(&inspection);
        if (s) {
            return s;
        }
    }
    *quotient = (losses[0] - losses[1]) / (2 * (double)step);
    return 0;
}

int
main(void)
{
    const float w1_of[INPUTS * HIDDEN] = {0.3f, -0.1f, 0.2f, 0.4f, -0.4f, 0.6f};
    network_t network = new_network();
    cadre_inspection_t *inspection = NULL;
    double quotient = 0;
    int s = evaluate(&network, w1_of, &inspection);
    s = s ? s : difference_quotient(&network, w1_of, &quotient);
    if (s) {
        fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text());
    } else {
        const float *gradient = cadre_inspection_gradient(inspection, "w1")->data;
        print("hidden", cadre_inspection_node(inspection, network.hidden));
        print("loss", cadre_inspection_result(inspection, "loss"));
        print("gradient of w1", cadre_inspection_gradient(inspection, "w1"));
        print("gradient of w2", cadre_inspection_gradient(inspection, "w2"));
        printf("difference quotient: %.4f\n", quotient);
        s = fabs(quotient - (double)gradient[0]) > 1e-3;
    }
    cadre_inspection_destroy(&inspection);
    cadre_program_destroy(&network.program);
    return s != 0;
}
