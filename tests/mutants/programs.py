"""Planted faults in programs and the CPU device, which the tests of both must catch: gradient rules,
layers, inference, plans, kernels. The form is that of mutants.py.
"""

# --- gradient rules: difference quotients show them ---

GRADIENTS = [
    ("square-factor", "the gradient of a square lacks its factor 2",
     "common/graph/gradient_rules.c",
     "        return cadre_mul(p, g, cadre_mul(p, x, cadre_const_f32(p, 2)));\n",
     "        return cadre_mul(p, g, cadre_mul(p, x, cadre_const_f32(p, 1)));\n"),
    ("matmul-flag", "the gradient of a matmul transposes the wrong way",
     "common/graph/gradient_rules.c",
     "                    : cadre_matmul_transposed(walk->program, g, 0, b, !flip_b));\n",
     "                    : cadre_matmul_transposed(walk->program, g, 0, b, flip_b));\n"),
    ("softmax-sum", "the gradient of softmax forgets the sum over the row",
     "common/graph/gradient_rules.c",
     "visit, 0, cadre_mul(p, y, cadre_sub(p, g, sum)));\n",
     "visit, 0, cadre_mul(p, y, g));\n"),
    ("mean-not-shared", "the gradient of a mean is that of a sum",
     "common/graph/gradient_rules.c",
     "cadre_program_emit_broadcast(p, g, &shape, function == CADRE_REDUCE_MEAN));\n",
     "cadre_program_emit_broadcast(p, g, &shape, function == CADRE_REDUCE_MAX));\n"),
    ("adjoint-replaced", "of two uses of a node only one gives a gradient",
     "common/graph/gradient_rules.c",
     "    *adjoint = adjoint->id == 0 ? gradient : cadre_add(walk->program, *adjoint, gradient);\n",
     "    *adjoint = gradient;\n"),
    ("image-same-way", "the gradient of im2col is im2col",
     "common/graph/gradient_rules.c",
     "    node.op = visit->node.op == CADRE_OP_IM2COL ? CADRE_OP_COL2IM : CADRE_OP_IM2COL;\n",
     "    node.op = visit->node.op == CADRE_OP_IM2COL ? CADRE_OP_IM2COL : CADRE_OP_COL2IM;\n"),
    ("rownorm-no-product", "the gradient of rownorm forgets the variance",
     "worker/device/cpu_norm.c",
     "            out[i] = row.scale * (g[i] - mean - y * along);\n",
     "            out[i] = row.scale * (g[i] - mean - 0 * y * along);\n"),
    ("xent-scale", "the gradient of cross entropy ignores that of the loss at the label",
     "worker/device/cpu_rows.c",
     "        y[labels[row]] -= scale;\n",
     "        y[labels[row]] -= 1;\n"),
]

# --- layers and losses: formulas as index arithmetic show them ---

LAYERS = [
    ("attention-scale", "scores are not divided by the root of the width",
     "common/graph/builder_attention.c",
     "(float)(1 / sqrt(width)));\n",
     "(float)(1 / width));\n"),
    ("attention-earlier", "a query sees later keys, not earlier ones",
     "common/graph/builder_attention.c",
     "    cadre_node_t later = cadre_gt(self, keys, cadre_program_emit_reshape(self, keys, &column));\n",
     "    cadre_node_t later = cadre_gt(self, cadre_program_emit_reshape(self, keys, &column), keys);\n"),
    ("batch-norm-squares", "the variance of a batch is its mean square",
     "common/graph/builder_layers.c",
     "cadre_square(self, difference), 0, channels);\n",
     "cadre_square(self, x), 0, channels);\n"),
    ("kl-of-zero", "a target of 0 makes the divergence NaN",
     "common/graph/builder_losses.c",
     "    cadre_node_t there = cadre_gt(self, targets, cadre_const_f32(self, 0));\n",
     "    cadre_node_t there = cadre_gt(self, targets, cadre_const_f32(self, -1));\n"),
]

# --- inference and what a decoder believes ---

SHAPES = [
    ("windows-rounded-up", "a window that does not fit the end of the image is counted",
     "common/graph/infer_image.c",
     "        out->extents[1 + i].factor = room / attributes[CADRE_IMAGE_STRIDE] + 1;\n",
     "        int64_t stride = attributes[CADRE_IMAGE_STRIDE];\n"
     "        out->extents[1 + i].factor = (room + stride - 1) / stride + 1;\n"),
    ("stride-zero", "a decoded stride of 0 is believed",
     "common/graph/infer_image.c",
     "        {\"stride\", CADRE_IMAGE_STRIDE, 1},\n",
     "        {\"stride\", CADRE_IMAGE_STRIDE, 0},\n"),
    ("col2im-unchecked", "columns of another image are summed into this one",
     "common/graph/infer_image.c",
     "    if (!cadre_extents_equal(&x->shape, &wanted)) {\n",
     "    if (x->shape.rank != wanted.rank) {\n"),
]

# --- kernels ---

KERNELS = [
    ("im2col-edge", "a window loses its last column at the right edge",
     "worker/device/cpu_image.c",
     "    int64_t room = layout->width - x;\n",
     "    int64_t room = layout->width - x - 1;\n"),
    ("im2col-padding", "what lies in the padding after the image is not zeroed",
     "worker/device/cpu_image.c",
     "        memset(to + span.window + span.count, 0, (size_t)after * sizeof(*to));\n",
     "        memset(to + span.window + span.count, 0, (size_t)(after / 2) * sizeof(*to));\n"),
    ("col2im-not-cleared", "col2im adds to what the memory held",
     "worker/device/cpu_image.c",
     "    memset(image, 0, operands->out->size_bytes);\n", ""),
    ("rownorm-unbiased", "the variance is that of a sample",
     "worker/device/cpu_norm.c",
     "        lanes[k] += cadre_element_square(x[i] - mean);\n"
     "    }\n"
     "    return fold(lanes) / (cadre_real_t)size;\n",
     "        lanes[k] += cadre_element_square(x[i] - mean);\n"
     "    }\n"
     "    return fold(lanes) / (cadre_real_t)(size > 1 ? size - 1 : 1);\n"),
]

# --- plans: other programs' memory, and a plan without reuse, show them ---

PLANS = [
    ("freed-at-first-use", "an input's memory is given away after its first use",
     "worker/device/plan.c",
     "            value->last_use = value->last_use < until ? until : value->last_use;\n",
     "            value->last_use = value->last_use < 0 ? until : value->last_use;\n"),
    ("freed-before-output", "an output may take the place of an input that is read for it",
     "worker/device/plan.c",
     "        if (!may_work_in_place(step->op, i) || !dies_at(&self->values[input->root], at) ||\n",
     "        if ((input->rank < 0 && !may_work_in_place(step->op, i)) ||\n"
     "            !dies_at(&self->values[input->root], at) ||\n"),
    ("donor-of-other-size", "an output takes over an input of another size",
     "worker/device/plan.c",
     "            input->count != out->count || input->dtype != out->dtype) {\n",
     "            input->dtype != out->dtype) {\n"),
]

# --- tables: positions, bags, and the layers over them ---

TABLES = [
    ("take-unchecked", "a position below 0 is read",
     "worker/device/cpu_sparse.c",
     "        if (index[i] < low || index[i] >= rows) {\n",
     "        if (index[i] >= rows) {\n"),
    ("position-at-end", "the position just behind the table is read",
     "worker/device/cpu_sparse.c",
     "        if (index[i] < low || index[i] >= rows) {\n",
     "        if (index[i] < low || index[i] > rows) {\n"),
    ("offsets-fall", "a bag may begin before the one before it",
     "worker/device/cpu_sparse.c",
     "        low = bags->offsets[i];\n", ""),
    ("first-offset", "entries before the first bag are in none",
     "worker/device/cpu_sparse.c",
     "        int64_t high = i == 0 ? 0 : bags->entries;\n",
     "        int64_t high = bags->entries;\n"),
    ("scatter-not-cleared", "scatter adds to what the memory held",
     "worker/device/cpu_sparse.c",
     "    memset(out, 0, operands->out->size_bytes);\n    for (int64_t i = 0; i < count; i++) {\n",
     "    for (int64_t i = 0; i < count; i++) {\n"),
    ("mean-counts-padding", "a mean divides by padding, too",
     "worker/device/cpu_sparse.c",
     "        count += bags->index[i] != PADDING;\n",
     "        count++;\n"),
    ("mean-of-table", "the gradient of a mean is that of the sum",
     "worker/device/cpu_sparse.c",
     "        cadre_real_t share = bags->mean ? 1 / divisor_of(bags, bag) : 1;\n",
     "        cadre_real_t share = 1;\n"),
    ("padding-not-written", "the gradient of a weight at padding is what the memory held",
     "worker/device/cpu_sparse.c",
     "            cadre_real_t sum = 0;\n            if (bags->index[i] != PADDING) {\n",
     "            cadre_real_t sum = out[i];\n            if (bags->index[i] != PADDING) {\n"),
    ("bag-weights", "the gradient of a table ignores the weights",
     "common/graph/gradient_sparse.c",
     "        cadre_gradient_give(walk, visit, 0, bag_grad(walk, visit, visit->gradient, weights, table));\n",
     "        cadre_gradient_give(walk, visit, 0,\n"
     "                            bag_grad(walk, visit, visit->gradient, (cadre_node_t){0}, table));\n"),
    ("bag-grad-of-weights", "no gradient flows from a table's gradient to the weights",
     "common/graph/gradient_rules.c",
     "    case CADRE_OP_BAG:\n    case CADRE_OP_BAG_GRAD:\n        return index == 0 || index == 3;\n",
     "    case CADRE_OP_BAG:\n        return index == 0 || index == 3;\n"
     "    case CADRE_OP_BAG_GRAD:\n        return index == 0;\n"),
    ("scatter-unchecked", "values of other rows are scattered",
     "common/graph/infer_sparse.c",
     "    if (!cadre_extents_equal(&values->shape, &wanted)) {\n",
     "    if (values->shape.rank != wanted.rank) {\n"),
    ("bag-mode", "a decoded mode is believed",
     "common/graph/infer_sparse.c",
     "    if (mode != CADRE_BAG_SUM && mode != CADRE_BAG_MEAN) {\n",
     "    if (mode < 0) {\n"),
    ("fm-squares", "the squares of a factorization machine are not weighted by those of the values",
     "common/graph/builder_sparse.c",
     "    cadre_node_t squares = values.id == 0 ? none : cadre_square(self, values);\n",
     "    cadre_node_t squares = values;\n"),
    ("dlrm-diagonal", "the pairs of vectors are of the wrong side",
     "common/graph/builder_sparse.c",
     "            *places++ = (int32_t)(i * count + k);\n",
     "            *places++ = (int32_t)(i * count + k + 1);\n"),
    ("sgns-signs", "the context counts as a negative",
     "common/graph/builder_sparse.c",
     "        values[i] = i == 0 ? -1 : 1;\n",
     "        values[i] = 1;\n"),
]

# --- bf16 inside programs ---

BF16 = [
    ("bf16-cut", "bf16 is cut, not rounded",
     "worker/device/element.h",
     "    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);\n",
     "    return (uint16_t)(word >> 16);\n"),
    ("bf16-nan", "NaN is rounded as a number",
     "worker/device/element.h",
     "    if ((word & 0x7fffffffU) > 0x7f800000U) {\n",
     "    if ((word & 0x7fffffffU) > 0x7fffffffU) {\n"),
    ("bf16-compared", "bf16 is compared as if it was f32",
     "common/graph/infer_arithmetic.c",
     "    if ((!compares || left->dtype != CADRE_I32) && ",
     "    if (!compares && "),
    ("bf16-constant", "a decoded constant may be bf16",
     "common/graph/program_codec.c",
     "!(argument && number == CADRE_BF16)", "number != (argument ? CADRE_BF16 : CADRE_BF16)"),
    ("bf16-no-flow", "no gradient flows through a cast to bf16",
     "common/graph/gradient_rules.c",
     "        return node->dtype != CADRE_I32 &&\n",
     "        return node->dtype == CADRE_F32 &&\n"),
    ("bf16-wide-gradient", "the gradient of a product of bf16 stays f32",
     "common/graph/gradient_rules.c",
     "        g = cadre_cast(walk->program, g, CADRE_BF16);\n", "        (void)g;\n"),
    ("bf16-right-side", "the right operand of bf16 is the left one",
     "worker/device/cpu_matmul.c",
     "        b = wide + left->count;\n", "        b = wide;\n"),
]

PROGRAMS = GRADIENTS + LAYERS + SHAPES + KERNELS + PLANS + TABLES + BF16
