"""Planted faults in programs and the CPU device, which the tests of both must catch: gradient rules,
layers, inference, plans, kernels. The form is that of mutants.py.
"""

from plant import drop, swap, without

# --- gradient rules: difference quotients show them ---

GRADIENTS = [
    ("square-factor", "the gradient of a square lacks its factor 2",
     "common/graph map1_gradient", swap("cadre_op_const_f32(p, 2)", "cadre_op_const_f32(p, 1)")),
    ("matmul-flag", "the gradient of a matmul transposes the wrong way",
     "common/graph cadre_gradient_matmul", swap(", !flip_b", ", flip_b")),
    ("softmax-sum", "the gradient of softmax forgets the sum over the row",
     "common/graph cadre_gradient_softmax", swap("cadre_op_sub(p, g, sum)", "g")),
    ("mean-not-shared", "the gradient of a mean is that of a sum",
     "common/graph cadre_gradient_reduce", swap("CADRE_REDUCE_MEAN", "CADRE_REDUCE_MAX")),
    ("adjoint-replaced", "of two uses of a node only one gives a gradient",
     "common/graph cadre_gradient_give",
     swap("adjoint->id == 0 ? gradient : cadre_op_add(walk->program, *adjoint, gradient)",
          "gradient")),
    ("image-same-way", "the gradient of im2col is im2col",
     "common/graph cadre_gradient_im2col",
     swap("CADRE_OP_COL2IM", "CADRE_OP_IM2COL")),
    ("rownorm-no-product", "the gradient of rownorm forgets the variance",
     "worker/device rownorm_grad_part", swap("mean - y *", "mean - 0 * y *")),
    ("xent-scale", "the gradient of cross entropy ignores that of the loss at the label",
     "worker/device xent_grad_part", swap("-= gradient[row]", "-= 1")),
]

# --- layers and losses: formulas as index arithmetic show them ---

LAYERS = [
    ("attention-scale", "scores are not divided by the root of the width",
     "common/graph cadre_op_attention", swap("sqrt(width)", "width")),
    ("attention-earlier", "a query sees later keys, not earlier ones",
     "common/graph hide_later",
     swap("keys, cadre_program_emit_reshape(self, keys, &column)",
          "cadre_program_emit_reshape(self, keys, &column), keys")),
    ("embedding-cut", "an id that is not whole is cut to one that is",
     "common/graph whole_numbers", swap("cadre_op_const_f32(self, -1)", "x")),
    ("conv1d-one-end", "the padding of a sequence is on one end only",
     "common/graph cadre_op_conv1d", swap("1, padding, padding", "1, 2 * padding, 0")),
    ("gru-reset-before", "the reset gate of a gru is that of its update",
     "common/graph gru_step", swap("gates(self, both, 1, 1)", "gates(self, both, 0, 1)")),
    ("lstm-input-is-forget", "the input gate of an lstm is that of forgetting",
     "common/graph lstm_step",
     swap("gates(self, both, 0, 1), candidate", "gates(self, both, 1, 1), candidate")),
    ("steps-cut-short", "a position in the last part of a sequence is cut out of another place",
     "common/graph cut_positions", swap("0, begin, length", "0, 0, length")),
    ("batch-norm-squares", "the variance of a batch is its mean square",
     "common/graph cadre_op_batch_norm",
     swap("cadre_op_square(self, difference)", "cadre_op_square(self, x)")),
    ("kl-of-zero", "a target of 0 makes the divergence NaN",
     "common/graph cadre_op_kl_divergence",
     swap("cadre_op_const_f32(self, 0)", "cadre_op_const_f32(self, -1)")),
]

# --- inference and what a decoder believes ---

SHAPES = [
    ("windows-rounded-up", "a window that does not fit the end of the image is counted",
     "common/graph columns_of",
     swap("out->extents[1 + i].factor = room / attributes[CADRE_IMAGE_STRIDE]",
          "int64_t stride = attributes[CADRE_IMAGE_STRIDE]; out->extents[1 + i].factor = (room + "
          "stride - 1) / stride")),
    ("stride-zero", "a decoded stride of 0 is believed",
     "common/graph check_window", swap("CADRE_IMAGE_STRIDE, 1", "CADRE_IMAGE_STRIDE, 0")),
    ("col2im-unchecked", "columns of another image are summed into this one",
     "common/graph cadre_infer_col2im",
     swap("!cadre_extents_equal(&x->shape, &wanted)", "x->shape.rank != wanted.rank")),
]

# --- kernels ---

KERNELS = [
    ("im2col-edge", "a window loses its last column at the right edge",
     "worker/device span_at", swap("layout->width - x", "layout->width - x - 1")),
    ("im2col-padding", "what lies in the padding after the image is not zeroed",
     "worker/device fill_row", swap("(size_t)after", "(size_t)(after / 2)")),
    ("col2im-not-cleared", "col2im adds to what the memory held",
     "worker/device col2im_part", drop("memset")),
    ("rownorm-unbiased", "the variance is that of a sample",
     "worker/device statistics", swap("(double)size", "(double)(size > 1 ? size - 1 : 1)")),
    ("softmax-of-first-block", "exponentials beyond a block are not added up",
     "worker/device summarise_long",
     swap("cadre_sum_block(to, count)", "i == 0 ? (double)cadre_sum_block(to, count) : 0")),
    ("tile-at-tile", "a transpose's last tile begins where the one before it does",
     "worker/device turn_tiles", swap("+ first", "+ (left < TILE ? first - 1 : first)")),
    ("exp-of-large", "exp of large numbers wraps around",
     "worker/device cadre_math_exp", drop("x = x >")),
]

# --- plans: other programs' memory, and a plan without reuse, show them ---

PLANS = [
    ("freed-at-first-use", "an input's memory is given away after its first use",
     "worker/device finish_steps", swap("< until", "< 0")),
    ("freed-before-output", "an output may take the place of an input that is read for it",
     "worker/device find_donor",
     swap("!may_work_in_place(step->op, i)",
          "(input->rank < 0 && !may_work_in_place(step->op, i))")),
    ("donor-of-other-size", "an output takes over an input of another size",
     "worker/device find_donor", without("input->count != out->count")),
    ("chained-though-read", "what another step reads, too, exists nowhere",
     "worker/device belongs", swap("== self->uses[made]", "> 0")),
    ("chained-though-output", "a result that a chain reads, too, exists nowhere",
     "worker/device belongs", swap("plan->values[made].place.kind != CADRE_PLACE_NONE", "false")),
    ("chain-of-other-shape", "an operation of fewer elements joins a chain",
     "worker/device belongs",
     swap("CADRE_PLACE_NONE || !same_shape", "CADRE_PLACE_NONE || (out->count < 0 && !same_shape"),
     swap(", out", ", out)")),
    ("chain-begins-anew", "each block of a chain reads the first one's inputs",
     "worker/device run_piece", swap("+ first * stride", "")),
]

# --- tables: positions, bags, and the layers over them ---

TABLES = [
    ("take-unchecked", "a position below 0 is read",
     "worker/device check_index", without("index[i] < low")),
    ("position-at-end", "the position just behind the table is read",
     "worker/device check_index", swap("[i] >= rows", "[i] > rows")),
    ("offsets-fall", "a bag may begin before the one before it",
     "worker/device/cpu_sparse check_bags", drop("low = bags")),
    ("first-offset", "entries before the first bag are in none",
     "worker/device/cpu_sparse check_bags",
     swap("= i == 0 ? 0 : bags->entries", "= bags->entries")),
    ("scatter-not-cleared", "scatter adds to what the memory held",
     "worker/device cadre_cpu_scatter", drop("memset")),
    ("mean-counts-padding", "a mean divides by padding, too",
     "worker/device divisor_of", swap("+= bags->index[i] != PADDING", "++")),
    ("mean-of-table", "the gradient of a mean is that of the sum",
     "worker/device gradient_of_table", swap("bags->mean ? 1 / divisor_of(bags, bag) :", "")),
    ("padding-not-written", "the gradient of a weight at padding is what the memory held",
     "worker/device gradient_of_weights", swap("= 0", "= bags->out[i]")),
    ("bag-weights", "the gradient of a table ignores the weights",
     "common/graph cadre_gradient_bag", swap(", weights,", ", (cadre_node_t){0},")),
    ("bag-grad-of-weights", "no gradient flows from a table's gradient to the weights",
     "common/graph/op.h",
     swap("bag_grad, 3, 4, 2, true, OWN, RESULT_BAGS, RULE, \\ CADRE_OP_INPUT(0) | CADRE_OP_INPUT(3)",
          "bag_grad, 3, 4, 2, true, OWN, RESULT_BAGS, RULE, CADRE_OP_INPUT(0)")),
    ("scatter-unchecked", "values of other rows are scattered",
     "common/graph cadre_infer_scatter",
     swap("!cadre_extents_equal(&values->shape, &wanted)", "values->shape.rank != wanted.rank")),
    ("bag-mode", "a decoded mode is believed",
     "common/graph check_bags", swap("!= CADRE_BAG_SUM && mode != CADRE_BAG_MEAN", "< 0")),
    ("fm-squares", "the squares of a factorization machine are not weighted by those of the values",
     "common/graph sum_vectors",
     swap("values.id == 0 ? none : cadre_op_square(self, values)", "values")),
    ("fm-even-squares", "bags of one size of a factorization machine have no squares",
     "common/graph sum_vectors",
     swap("cadre_op_sum(self, cadre_op_square(self, rows), 1)", "cadre_op_sum(self, rows, 1)")),
    ("dlrm-diagonal", "the pairs of vectors are of the wrong side",
     "common/graph lower_triangle", swap("(i * count + k)", "(i * count + k + 1)")),
    ("sgns-signs", "the context counts as a negative",
     "common/graph signs", swap("= i == 0 ? -1 : 1", "= 1")),
    ("in-batch-same", "a candidate that is there twice counts twice",
     "common/graph differences", swap("NO_SCORE", "0")),
    ("rows-of-any-sum", "a sum over all rows of a table is one over those that are looked up",
     "common/graph is_sum_of_rows", without("self->is_zero[node->inputs[0]]")),
    ("rows-of-a-mean", "a mean over all rows of a gradient divides by those that are looked up",
     "common/graph is_sum_of_rows",
     without("node->attributes[CADRE_FUNCTION] == CADRE_REDUCE_SUM")),
    ("rows-of-sums-of-rows", "sums of each row are taken for a sum over rows",
     "common/graph is_sum_of_rows", without("node->attributes[CADRE_REDUCE_BEGIN] == 0")),
]

# --- local steps: the optimizers that programs run ---

STEPS = [
    ("inner-second-rate", "the second moment of an inner adam is not corrected by the step",
     "common/graph rate_of", swap("pow(parameters[CADRE_ADAM_BETA_2], step)",
                                  "parameters[CADRE_ADAM_BETA_2]")),
    ("inner-slots-lost", "an inner momentum begins anew at each step",
     "common/graph apply_momentum", swap("slots->moments[0] = moment", "slots->moments[0] = none")),
    ("inner-nesterov-is-momentum", "an inner nesterov does not look ahead",
     "common/graph apply_momentum", swap("moment = velocity(self, moment, moved);", "")),
    ("inner-broadcast", "the gradient of one number moves a whole value",
     "common/graph check_pair", swap("bool fits = cadre_extents_equal(", "bool fits = true || cadre_extents_equal(")),
    ("inner-constants-anew", "each step has constants of its own",
     "common/graph cadre_op_inner_step", swap("inner->step == 0", "inner->step >= 0")),
]

# --- bf16 inside programs ---

BF16 = [
    ("bf16-cut", "bf16 is cut, not rounded",
     "common/tensor cadre_bf16_word", swap("(word + 0x7fff + (word >> 16 & 1))", "word")),
    ("bf16-nan", "NaN is rounded as a number",
     "common/tensor cadre_bf16_word", swap("0x7f800000U", "0x7fffffffU")),
    ("bf16-compared", "bf16 is compared as if it was f32",
     "common/graph cadre_infer_map2", swap("(!compares || left->dtype != CADRE_I32)", "!compares")),
    ("bf16-constant", "a decoded constant may be bf16",
     "common/graph get_dtype",
     swap("(value && number == CADRE_BF16)", "(!value && number == CADRE_U8)")),
    ("bf16-no-flow", "no gradient flows through a cast to bf16",
     "common/graph cadre_gradient_flows",
     swap("!is_of_integers(node) &&", "node->dtype == CADRE_F32 &&")),
    ("f64-no-gradient", "a gradient ends at f64 without a word",
     "common/graph walk_back", swap("visit.node.dtype == CADRE_F64", "visit.node.dtype == CADRE_U8")),
    ("f64-minimized", "a statistic of f64 is trained",
     "common/graph cadre_op_minimize", swap("reached[node] && cadre_program_node(self, node)->dtype == CADRE_F32", "reached[node]")),
    ("one-format", "a program of i64 says nothing of its dtypes",
     "common/graph format_of", swap("return FORMAT_DTYPES", "return FORMAT_F32")),
    ("i64-by-double", "a sum of i64 goes by way of f64",
     "worker/device/cpu_wide.c", swap("KERNEL(i64_add, int64_t)", "KERNEL(i64_add, double)")),
    ("beyond-i32", "a position of i64 is cut to 32 bits",
     "worker/device/element_wide.h", swap("return INT32_MAX;", "return (int32_t)(uint32_t)x;")),
    ("bf16-wide-gradient", "the gradient of a product of bf16 stays f32",
     "common/graph cadre_gradient_matmul", drop("g = cadre_op_cast")),
    ("bf16-right-side", "the right operand of bf16 is the left one",
     "worker/device cadre_cpu_matmul", swap("= wide + left->count", "= wide")),
]

PROGRAMS = GRADIENTS + LAYERS + SHAPES + KERNELS + PLANS + TABLES + STEPS + BF16
