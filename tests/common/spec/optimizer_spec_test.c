#include "common/spec/optimizer_spec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(optimizer_spec, .timeout = 240);

static cadre_optimizer_spec_t
parsed(const char *text)
{
    cadre_optimizer_spec_t spec;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, text), 0, "%s", text);
    return spec;
}

Test(optimizer_spec, is_the_same_in_a_program_s_words)
{
    double number = 1;
    for (int kind = 1; kind <= 10; kind++) {
        const char *text = cadre_optimizer_kind_text((cadre_optimizer_kind_t)kind);
        const cadre_parameter_t *table = NULL;
        cadre_optimizer_spec_t spec;
        cadre_optimizer_spec_t taken;
        cadre_optimizer_t given = cadre_optimizer((cadre_optimizer_kind_t)kind);
        size_t count = cadre_optimizer_parameters((cadre_optimizer_kind_t)kind, &table);
        cr_assert_eq(cadre_optimizer_spec_parse(&spec, text), 0);
        cr_assert_eq(cadre_optimizer_spec_take(&taken, &given), 0);
        cr_assert_arr_eq(taken.parameters, spec.parameters, sizeof(spec.parameters), "%s", text);
        for (size_t i = 0; i < count; i++) {
            number *= 0.5;
            spec.parameters[i] = strcmp(table[i].name, "centered") == 0 ? 1 : number;
        }
        given = cadre_optimizer_spec_give(&spec);
        cr_assert_eq(cadre_optimizer_spec_take(&taken, &given), 0);
        cr_assert_arr_eq(taken.parameters, spec.parameters, sizeof(spec.parameters), "%s", text);
        cr_assert_eq(cadre_optimizer_named(text, &given), 0);
        cr_assert_eq((int)given.kind, kind);
    }
    cr_assert_eq(cadre_optimizer_named("no such", NULL), CADRE_ENOTFOUND);
    cr_assert_eq(cadre_optimizer_named(NULL, NULL), CADRE_ENOTFOUND);
}

Test(optimizer_spec, knows_every_kind_by_its_name_and_number)
{
    static const char *const names[] = {
        "sgd",  "momentum", "nesterov", "adagrad", "rmsprop",
        "adam", "adamw",    "ftrl",     "add",     "delayed_nesterov"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_optimizer_spec_t spec = parsed(names[i]);
        cr_assert_eq((size_t)spec.kind, i + 1);
        cr_assert_str_eq(cadre_optimizer_kind_text(spec.kind), names[i]);
        cr_assert_eq(cadre_optimizer_spec_check(&spec, CADRE_F32), 0, "%s", names[i]);

        const cadre_parameter_t *table = NULL;
        size_t count = cadre_optimizer_parameters(spec.kind, &table);
        cadre_optimizer_spec_t decoded;
        cr_assert_eq(cadre_optimizer_spec_decode(&decoded, i + 1, spec.parameters, count), 0);
        cr_assert_eq(decoded.kind, spec.kind);
        cr_assert_arr_eq(decoded.parameters, spec.parameters, sizeof(spec.parameters));
    }
    cadre_optimizer_spec_t spec;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, "lamb"), CADRE_ENOTFOUND);
    cr_assert_str_eq(cadre_error_text(), "no optimizer 'lamb'; there are sgd momentum nesterov "
                                         "adagrad rmsprop adam adamw ftrl add delayed_nesterov");
}

Test(optimizer_spec, has_the_defaults_of_keras)
{
    cr_assert_eq(parsed("sgd").parameters[CADRE_LEARNING_RATE], 0.01);
    cr_assert_eq(parsed("nesterov").parameters[CADRE_MOMENTUM_MOMENTUM], 0.9);
    cr_assert_eq(parsed("delayed_nesterov").parameters[CADRE_LEARNING_RATE], 0.7, "of DiLoCo");
    cr_assert_eq(parsed("adagrad").parameters[CADRE_ADAGRAD_INITIAL_ACCUMULATOR], 0.1);
    cr_assert_eq(parsed("rmsprop").parameters[CADRE_RMSPROP_RHO], 0.9);
    cr_assert_eq(parsed("adam").parameters[CADRE_ADAM_BETA_2], 0.999);
    cr_assert_eq(parsed("adam").parameters[CADRE_ADAM_EPSILON], 1e-7);
    cr_assert_eq(parsed("adam").parameters[CADRE_ADAMW_WEIGHT_DECAY], 0);
    cr_assert_eq(parsed("adamw").parameters[CADRE_ADAMW_WEIGHT_DECAY], 0.004);
    cr_assert_eq(parsed("ftrl").parameters[CADRE_FTRL_LEARNING_RATE_POWER], -0.5);
}

Test(optimizer_spec, sets_a_parameter_by_name_within_its_range)
{
    cadre_optimizer_spec_t spec = parsed("adam");
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "beta_1", 0), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "beta_1", nextafter(1, 0)), 0);
    cr_assert_eq(spec.parameters[CADRE_ADAM_BETA_1], nextafter(1, 0));
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "beta_1", 1), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "adam: beta_1 must be in [0, 1), not 1");
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "learning_rate", 0), CADRE_EINVALID);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "learning_rate", NAN), CADRE_EINVALID);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "learning_rate", INFINITY), CADRE_EINVALID);
    cr_assert_eq(spec.parameters[CADRE_LEARNING_RATE], 0.001);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "momentum", 0.5), CADRE_ENOTFOUND);
    cr_assert_str_eq(cadre_error_text(), "adam has no parameter 'momentum'; it has "
                                         "learning_rate, beta_1, beta_2, epsilon");

    spec = parsed("momentum");
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "momentum", 1), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "momentum", 1.01), CADRE_EINVALID);
    spec = parsed("rmsprop");
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "centered", 1), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "centered", 0.5), CADRE_EINVALID);
    cr_assert_eq(spec.parameters[CADRE_RMSPROP_CENTERED], 1);
    spec = parsed("delayed_nesterov");
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "delay", 1), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "delay", 0), CADRE_EINVALID);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "delay", 2.5), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "delayed_nesterov: delay must be a whole number, not 2.5");
    spec = parsed("add");
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "learning_rate", 1), CADRE_ENOTFOUND);
    cr_assert_str_eq(cadre_error_text(), "add has no parameter 'learning_rate'; it has none");
}

Test(optimizer_spec, refuses_what_the_wire_should_not_carry)
{
    const double good[] = {0.1};
    const double bad[] = {-0.1};
    cadre_optimizer_spec_t spec = {0};
    cr_assert_eq(cadre_optimizer_spec_decode(&spec, 0, good, 1), CADRE_EMALFORMED);
    cr_assert_eq(cadre_optimizer_spec_decode(&spec, 11, good, 1), CADRE_EMALFORMED);
    cr_assert_eq(cadre_optimizer_spec_decode(&spec, 257, good, 1), CADRE_EMALFORMED);
    cr_assert_eq(cadre_optimizer_spec_decode(&spec, 1, good, 0), CADRE_EMALFORMED);
    cr_assert_eq(cadre_optimizer_spec_decode(&spec, 9, good, 1), CADRE_EMALFORMED);
    cr_assert_eq(cadre_optimizer_spec_decode(&spec, 1, bad, 1), CADRE_EINVALID);
    cr_assert_eq((int)spec.kind, 0, "written on success only");
}

Test(optimizer_spec, updates_floats_only_except_by_adding)
{
    cadre_optimizer_spec_t sgd = parsed("sgd");
    cadre_optimizer_spec_t add = parsed("add");
    cr_assert_eq(cadre_optimizer_spec_check(&sgd, CADRE_F64), CADRE_EDTYPE);
    cr_assert_eq(cadre_optimizer_spec_check(&sgd, CADRE_I32), CADRE_EDTYPE);
    cr_assert_eq(cadre_optimizer_spec_check(&add, CADRE_F64), 0);
    cr_assert_eq(cadre_optimizer_spec_check(&add, CADRE_I32), 0);
    cr_assert_eq(cadre_optimizer_spec_check(&add, CADRE_I64), 0);
    cr_assert_eq(cadre_optimizer_spec_check(&add, CADRE_U8), CADRE_EDTYPE);
}

Test(optimizer_spec, is_another_one_with_another_schedule)
{
    cadre_optimizer_spec_t spec = parsed("sgd");
    cadre_optimizer_spec_t other = spec;
    cr_assert(cadre_optimizer_spec_equal(&spec, &other));
    cr_assert_eq(cadre_schedule_spec_parse(&other.schedule, "constant"), 0);
    cr_assert_not(cadre_optimizer_spec_equal(&spec, &other));
    other = spec;
    other.parameters[CADRE_LEARNING_RATE] = 1;
    cr_assert_not(cadre_optimizer_spec_equal(&spec, &other));

    spec = parsed("add");
    cr_assert_eq(cadre_schedule_spec_parse(&spec.schedule, "constant"), 0);
    cr_assert_eq(cadre_optimizer_spec_check(&spec, CADRE_F32), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "add has no learning rate, which a schedule changes");
    spec = parsed("sgd");
    cr_assert_eq(cadre_schedule_spec_parse(&spec.schedule, "cosine"), 0);
    cr_assert_eq(cadre_optimizer_spec_check(&spec, CADRE_F32), CADRE_EINVALID, "decay_steps");
}

Test(optimizer_spec, names_its_slots_and_what_they_begin_with)
{
    cadre_optimizer_spec_t spec = parsed("sgd");
    cr_assert_eq(cadre_optimizer_slot_count(&spec), 0);
    spec = parsed("adagrad");
    cr_assert_eq(cadre_optimizer_slot_count(&spec), 1);
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 0), "accumulator");
    cr_assert_eq(cadre_optimizer_slot_initial(&spec, 0), 0.1F);
    spec = parsed("ftrl");
    cr_assert_eq(cadre_optimizer_slot_count(&spec), 2);
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 1), "linear");
    cr_assert_eq(cadre_optimizer_slot_initial(&spec, 0), 0.1F);
    cr_assert_eq(cadre_optimizer_slot_initial(&spec, 1), 0);
    spec = parsed("nesterov");
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 0), "momentum_step");
    spec = parsed("adamw");
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 0), "momentum");
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 1), "velocity");

    spec.average_momentum = 0.5;
    cr_assert_eq(cadre_optimizer_slot_count(&spec), 3);
    cr_assert_eq(cadre_optimizer_average_slot(&spec), 2);
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 1), "velocity");
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 2), "average");

    spec = parsed("rmsprop");
    cr_assert_eq(cadre_optimizer_slot_count(&spec), 1);
    spec.parameters[CADRE_RMSPROP_CENTERED] = 1;
    cr_assert_eq(cadre_optimizer_slot_count(&spec), 2);
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 1), "average_gradient");
    spec.parameters[CADRE_RMSPROP_MOMENTUM] = 0.5;
    cr_assert_eq(cadre_optimizer_slot_count(&spec), 3);
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 1), "rmsprop_step");
    cr_assert_str_eq(cadre_optimizer_slot_name(&spec, 2), "average_gradient");
}

Test(optimizer_spec, says_which_rows_rest)
{
    static const struct {
        const char *name;
        bool changes_nothing; /* where a gradient is zero */
    } kinds[] = {{"sgd", true},       {"adagrad", true}, {"add", true},
                 {"momentum", false}, {"adam", false},   {"adamw", false},
                 {"rmsprop", false},  {"ftrl", false},   {"nesterov", false}};
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        cadre_optimizer_spec_t spec = parsed(kinds[i].name);
        cr_expect_eq(cadre_optimizer_spec_rests(&spec), kinds[i].changes_nothing, "%s",
                     kinds[i].name);
        cr_expect(cadre_optimizer_spec_takes_rows(&spec), "%s", kinds[i].name);
        spec.lazy = true;
        cr_expect(cadre_optimizer_spec_rests(&spec), "%s", kinds[i].name);
        spec.lazy = false;
        spec.average_momentum = 0.5;
        cr_expect_not(cadre_optimizer_spec_rests(&spec), "%s", kinds[i].name);
        cr_expect(cadre_optimizer_spec_takes_rows(&spec), "%s", kinds[i].name);
        spec.average_momentum = 0;
        spec.delay_compensation = 0.1;
        cr_expect_not(cadre_optimizer_spec_takes_rows(&spec), "%s", kinds[i].name);
    }
}
