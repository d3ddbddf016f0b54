#include "coordinator/cli/train/job_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/job_optimizer.h"
#include "coordinator/cli/train/model.h"

TestSuite(job_file, .timeout = 240);

#define DATA "\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a.csv\"}}"
#define VALUES                                                                                     \
    "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"x\", \"label_kind\": \"value\"}},"   \
    "\n\"model\": {\"type\": \"factorization_machine\", "
#define TABLE                                                                                      \
    "{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"embedding\", "        \
    "\"units\": 2, "
#define MODEL "\"model\": {\"type\": \"mlp\", \"hidden\": [4]}"

typedef struct {
    const char *text;
    const char *error;
} example_t;

static const example_t examples[] = {
    {"{\n  \"nam\": 1\n}", "j.json:2:3: unknown key \"nam\" in the job; did you mean \"name\"?"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"type\": \"sgd\",\n    \"learning_rat\": 0.1}}",
     "j.json:4:5: unknown key \"learning_rat\" in optimizer; did you mean \"learning_rate\"?"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"type\": \"sgd\", \"beta_1\": 0.1}}",
     "j.json:3:30: unknown key \"beta_1\" in optimizer, which has type.*learning_rate"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"type\": \"adma\"}}",
     "j.json:3:23: .*did you mean \"adam\"?"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"learning_rate\": -1}}", "j.json:3:32: "},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"learning_rate\": \"fast\"}}",
     "j.json:3:32: optimizer.learning_rate must be a number, not a string"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"learning_rate\": {\"initial\": 1}}}",
     "j.json:3:32: optimizer.learning_rate needs \"schedule\": its kind, such as \"cosine\""},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"learning_rate\": {\"schedule\": \"cosin\"}}}",
     "j.json:3:45: no schedule 'cosin'; there are constant piecewise_constant exponential "
     "inverse_time "
     "polynomial cosine cosine_restarts; did you mean \"cosine\"?"},
    {"{" DATA ",\n" MODEL
     ",\n\"optimizer\": {\"learning_rate\": {\"schedule\": \"cosine\",\n\"decay_step\": 9}}}",
     "j.json:4:1: unknown key \"decay_step\" in optimizer.learning_rate; did you mean "
     "\"decay_steps\"?"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"learning_rate\": {\"schedule\": \"cosine\"}}}",
     "j.json:3:32: cosine: decay_steps must be in [1, "},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"learning_rate\": {\"schedule\": \"exponential\",\n"
     "\"decay_steps\": 5, \"decay_rate\": 0.5,\n\"staircase\": 1}}}",
     "j.json:5:14: optimizer.learning_rate.staircase must be true or false, not "},
    {"{" DATA ",\n" MODEL
     ",\n\"optimizer\": {\"learning_rate\": {\"schedule\": \"piecewise_constant\"}}}",
     "j.json:3:32: optimizer.learning_rate: piecewise_constant needs \"boundaries\" and "
     "\"values\""},
    {"{" DATA ",\n" MODEL
     ",\n\"optimizer\": {\"learning_rate\": {\"schedule\": \"piecewise_constant\", "
     "\"boundaries\": [5], \"values\": [1]}}}",
     "j.json:3:32: optimizer.learning_rate: 1 boundaries need 2 values, not 1"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"clip_norm\": 1, \"clip_value\": 0.5}}",
     "j.json:3:14: optimizer takes one of clip_value, clip_norm and global_clip_norm"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"type\": \"add\", \"clip_norm\": 1}}",
     "j.json:3:14: optimizer: add takes what is pushed as it is"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"lazy\": true, \"use_ema\": true}}",
     "j.json:3:23: optimizer.lazy does not go with use_ema"},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"base_batch_size\": 8}}",
     "j.json:3:34: optimizer.base_batch_size needs \"scale_with\": \"linear\" or \"sqrt\""},
    {"{" DATA ",\n" MODEL ",\n\"optimizer\": {\"clip_norm\": -1}}",
     "j.json:3:28: optimizer.clip_norm: -1 is not in 0 to 1e+30"},
    {"{" DATA ",\n" MODEL ",\n\"training\": {\"epochs\": 0}}",
     "j.json:3:24: training.epochs: 0 is not in 1 to 1000000"},
    {"{" DATA ",\n" MODEL ",\n\"training\": {\"epochs\": 1.5}}",
     "j.json:3:24: training.epochs: must be a whole number, not a number"},
    {"{" DATA ",\n" MODEL ",\n\"training\": {\"shuffle\": 1}}",
     "j.json:3:25: training.shuffle: must be true or false, not a whole number"},
    {"{" DATA ",\n" MODEL ",\n\"training\": {\"batchsize\": 1}}",
     "j.json:3:14: unknown key \"batchsize\" in training; did you mean \"batch_size\"?"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"partitioner\": \"fxed\"}}",
     "j.json:3:28: cluster.partitioner: \"fxed\" is none of fixed|min_bytes|max_bytes; did you "
     "mean "
     "\"fixed\"?"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"device\": \"gpu\"}}",
     "j.json:3:23: cluster.device: no device \"gpu\": it is auto, cpu, cuda, or cuda:N with N in 0 "
     "to "
     "1023"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"device\": \"cuda:99999\"}}",
     "j.json:3:23: cluster.device: no device \"cuda:99999\""},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"device\": \"\"}}",
     "j.json:3:23: cluster.device: the text is empty"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"device\": 0}}",
     "j.json:3:23: cluster.device: must be a string, or an array of strings, not a whole number"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"device\": [\"cpu\", 0]}}",
     "j.json:3:23: cluster.device: must be a string, or an array of strings, not a whole number"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"device\": [\"cuda:0,cpu\"]}}",
     "j.json:3:23: cluster.device: no device \"cuda:0,cpu\""},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"device\": []}}",
     "j.json:3:23: cluster.device: the text is empty"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"device\": \"tpu\"}}",
     "j.json:3:23: cluster.device: no device \"tpu\": Cadre computes on CPUs and NVIDIA GPUs, "
     "there "
     "is no device for TPUs"},
    {"{" DATA ",\n" MODEL ",\n\"strategy\": {\"type\": \"mirored\"}}",
     "j.json:3:22: strategy.type: \"mirored\" is none of parameter_server|multi_worker|mirrored|"
     "central|local; did you mean \"mirrored\"?"},
    {"{" DATA ",\n" MODEL ",\n\"strategy\": {\"kind\": \"local\"}}",
     "j.json:3:14: unknown key \"kind\" in strategy"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": {\"math\": \"f16\"}}",
     "j.json:3:21: cluster.math: \"f16\" is none of f32|tf32|bf16"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"label\": 0.5}},\n" MODEL "}",
     "j.json:1:60: data.train.label must be a string or a whole number, not a number"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"classes\": 1}},\n" MODEL "}",
     "j.json:1:20: data.train: key \"classes\" must be a whole number from 2 to "},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"\"}},\n" MODEL "}",
     "j.json:1:20: data.train: key \"path\" must be a path, or a list of paths"},
    {"{" DATA ",\n" MODEL ",\n\"cluster\": []}",
     "j.json:3:12: cluster must be an object, not an array"},
    {"{" MODEL "}", "j.json:1:1: \"data\" is missing"},
    {"{" DATA "}", "j.json:1:1: \"model\" is missing"},
    {"{\"data\": {},\n" MODEL "}", "j.json:1:10: \"train\" is missing in data"},
    {"{\"data\": {\"train\": {\"format\": \"csv\"}},\n" MODEL "}",
     "j.json:1:20: \"path\" is missing in data.train"},
    {"{\"data\": {\"train\": {\"format\": \"idx\", \"path\": \"a\"}},\n" MODEL "}",
     "j.json:1:20: \"labels_path\" is missing in data.train"},
    {"{\"data\": {\"train\": {\"format\": \"xlsx\", \"path\": \"a\"}},\n" MODEL "}",
     "j.json:1:31: data.train.format: \"xlsx\" is none of csv|libsvm|idx|npy|criteo|text"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"pth\": \"a\"}},\n" MODEL "}",
     "j.json:1:38: unknown key \"pth\" in data.train; did you mean \"path\"?"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"rows\": -1}},\n" MODEL "}",
     "j.json:1:59: data.train.rows cannot be negative"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"streaming\": 1}},\n" MODEL
     "}",
     "j.json:1:64: data.train.streaming must be true or false, not a whole number"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"memory_mib\": 9}},\n" MODEL
     "}",
     "j.json:1:20: data.train: key \"memory_mib\" goes with \"streaming\" only"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"}, \"test\": {\"format\": "
     "\"csv\", \"path\": \"a\", \"scale\": 0}},\n" MODEL "}",
     "j.json:1:60: data.test: key \"scale\" must be a number other than 0"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"}, \"test\": {\"fraction\": "
     "1}},\n" MODEL "}",
     "j.json:1:73: data.test.fraction must be a number between 0 and 1"},
    {"{" DATA ",\n\"model\": {\"type\": \"mlp\", \"hidden\": [1], \"dropout\": 1}}",
     "j.json:2:52: model.dropout: 1 is not in 0 to 0.99"},
    {"{" DATA ",\n\"model\": {\"type\": \"mlp\", \"hidden\": [1], \"dropout\": -0.1}}",
     "j.json:2:52: model.dropout: -0.1 is not in 0 to 0.99"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"},\n\"test\": {\"fraction\": "
     "0.5, "
     "\"seed\": 0}},\n" MODEL "}",
     "j.json:2:35: data.test.seed must be a whole number from 1 on"},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"held_out\": 0.1},\n\"test\": "
     "{\"fraction\": 0.5}},\n" MODEL "}",
     "j.json:2:10: data.test.fraction does not go with \"held_out\" in data.train"},
    {"{" DATA ",\n\"model\": {\"type\": \"mlp\"}}",
     "j.json:2:10: \"hidden\" is missing in model: an mlp has hidden layers"},
    {"{" DATA ",\n\"model\": {\"hidden\": [1]}}", "j.json:2:10: \"type\" is missing in model: "
                                                  "mlp|logistic|linear|cnn|transformer|layers"},
    {"{" DATA ",\n\"model\": {\"type\": \"mlp\", \"hidden\": [4, 0]}}",
     "j.json:2:40: model.hidden[1]: a layer's width must be a whole number in 1 to 1048576"},
    {"{" DATA ",\n\"model\": {\"type\": \"logistic\", \"hidden\": [4]}}",
     "j.json:2:31: a model of type \"logistic\" has no \"hidden\""},
    {"{" DATA ",\n\"model\": {\"type\": \"cnn\", \"filters\": [4]}}",
     "j.json:2:10: \"input\" is missing in model: the shape of one row, such as [28, 28, 1]"},
    {"{" DATA ",\n\"model\": {\"type\": \"cnn\", \"input\": [8, 8, 1]}}",
     "j.json:2:10: \"filters\" is missing in model: a cnn has convolutions, such as [16, 32]"},
    {"{" DATA ",\n\"model\": {\"type\": \"cnn\", \"input\": [8, 8], \"filters\": [4]}}",
     "j.json:2:35: model.input: an image is [height, width, channels]"},
    {"{" DATA ",\n\"model\": {\"type\": \"transformer\", \"input\": [64]}}",
     "j.json:2:43: model.input must be an array such as [8, 16]"},
    {"{" DATA ",\n\"model\": {\"type\": \"transformer\", \"input\": [8, 8], \"width\": 30}}",
     "j.json:2:10: model.heads: 4 heads do not divide model.width, 30"},
    {"{" DATA ",\n\"model\": {\"type\": \"transformer\", \"input\": [8, 8], \"kernel\": 3}}",
     "j.json:2:51: a model of type \"transformer\" has no \"kernel\""},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\"}}",
     "j.json:2:10: \"layers\" is missing in model: what the model consists of"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": {}}}",
     "j.json:2:39: model.layers must be an array of objects"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [3]}}",
     "j.json:2:40: model.layers[0]: a layer is an object with a \"type\""},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"conv\"}]}}",
     "j.json:2:49: model.layers[0].type: \"conv\" is none of "
     "dense|conv2d|max_pool2d|mean_pool2d|flatten|mean|activation|dropout|layer_norm|batch_norm|"
     "positions|transformer|embedding|reshape|add|concat|conv1d|"
     "max_pool1d|mean_pool1d|gru|lstm|embedding_bag|factorization_machine|interaction"},
    {"{\"data\": {\"train\": {\"format\": \"text\", \"path\": \"a\", \"vocabulary\": 9, "
     "\"label_kind\": \"binary\"},\n\"test\": {\"format\": \"text\", \"path\": \"b\", "
     "\"vocabulary\": 9, \"label_kind\": \"binary\"}}, " MODEL "}",
     "j.json:2:9: data.test: another text has other ids; take a fraction of data.train, as "
     "{\"fraction\": 0.1}"},
    {VALUES "\"fields\": [5, 6], \"softmax\": \"in_batch\"}}",
     "j.json:2:62: a model of type \"factorization_machine\" has no \"softmax\""},
    {"{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"x\", \"label_kind\": "
     "\"value\"}},\n\"model\": {\"type\": \"mlp\", \"hidden\": [4], \"softmax\": \"in_batch\"}}",
     "j.json:2:52: model.softmax: candidates are classes, but label_kind in data.train is "
     "another"},
    {"{" DATA ",\n\"model\": {\"type\": \"logistic\", \"linear\": false}}",
     "j.json:2:31: a model of type \"logistic\" has no \"linear\""},
    {"{" DATA ",\n\"model\": {\"type\": \"factorization_machine\", \"ids\": 5}}",
     "j.json:2:19: a factorization machine has one output: it needs \"label_kind\" \"binary\" or "
     "\"value\" in data.train"},
    {VALUES "\"ids\": 0}}", "j.json:2:10: \"ids\" is missing in model, or \"fields\" or \"table\": "
                            "which ids the rows have"},
    {VALUES "\"table\": true, \"ids\": 5}}",
     "j.json:2:44: \"table\" in model: a table has rows for any ids: it takes no \"ids\", and of "
     "\"fields\" how many columns there are"},
    {VALUES "\"table\": true, \"fields\": [5]}}",
     "j.json:2:44: \"table\" in model: a table has rows for any ids"},
    {VALUES "\"fields\": 2}}", "j.json:2:54: \"fields\" in model is an array of how many ids each "
                               "column has, such as [944, 1683], but with \"table\""},
    {VALUES "\"table\": true, \"factors\": 8193}}",
     "j.json:2:70: model.factors: rows of 8193 numbers, a table has at most 8192"},
    {VALUES "\"table\": {\"admit\": 3}}}", "j.json:2:54: unknown key \"admit\" in model.table"},
    {"{" DATA ",\n\"model\": {\"type\": \"mlp\", \"hidden\": [4], \"table\": true}}",
     "j.json:2:41: a model of type \"mlp\" looks up no ids, and so has no \"table\": layers over "
     "ids "
     "have one, such as \"embedding\" in \"layers\""},
    {VALUES "\"ids\": 5, \"fields\": [4]}}",
     "j.json:2:54: \"ids\" and \"fields\" in model do not go together: each says which ids there "
     "are"},
    {VALUES "\"fields\": [4, 0]}}",
     "j.json:2:54: model.fields must be an array of 1 to 64 whole numbers from 1 on, 16777216 at "
     "most together, such as [944, 1683]"},
    {VALUES "\"fields\": [16777216, 1]}}",
     "j.json:2:54: model.fields must be an array of 1 to 64 whole numbers from 1 on, 16777216 at "
     "most together, such as [944, 1683]"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"embedding_bag\", "
     "\"units\": 2, \"ids\": 3, \"fields\": [3]}]}}",
     "j.json:2:40: \"ids\" and \"fields\" in model.layers[0] (embedding_bag) do not go together: "
     "each says which ids there are"},
    {TABLE "\"ids\": 9, \"table\": true}]}}",
     "j.json:2:40: \"table\" in model.layers[0] (embedding): a table has rows for any ids: it "
     "takes no "
     "\"ids\", and of \"fields\" how many columns there are"},
    {TABLE "\"fields\": [9], \"table\": true}]}}", "j.json:2:40: \"table\" in model.layers[0]"},
    {TABLE "\"fields\": 2}]}}", "j.json:2:40: \"fields\" in model.layers[0] (embedding) is an "
                                "array of how many ids each column "
                                "has, such as [944, 1683], but with \"table\""},
    {TABLE "\"fields\": 65, \"table\": true}]}}",
     "j.json:2:84: model.layers[0].fields: 65 columns, not 1 to 64"},
    {TABLE "\"table\": 3}]}}", "j.json:2:83: model.layers[0].table must be true or an object such "
                               "as {\"admit_after\": 3}, not "
                               "a whole number"},
    {TABLE "\"table\": {\"admit\": 3}}]}}",
     "j.json:2:84: unknown key \"admit\" in model.layers[0].table"},
    {TABLE "\"table\": {\"admit_after\": 256}}]}}",
     "j.json:2:99: model.layers[0].table.admit_after: 256 is not in 0 to 255"},
    {TABLE "\"table\": {\"rows_max\": 1.5}}]}}",
     "j.json:2:96: model.layers[0].table.rows_max must be a whole number, not a number"},
    {TABLE "\"table\": {\"when_full\": \"lfo\"}}]}}",
     "j.json:2:97: model.layers[0].table.when_full: no such word as \"lfo\"; did you mean "
     "\"lfu\"?"},
    {TABLE "\"table\": {\"optimizer\": {\"type\": \"adagrad\", \"rate\": 1}}}]}}",
     "j.json:2:117: unknown key \"rate\" in model.layers[0].table.optimizer"},
    {TABLE "\"table\": {\"optimizer\": {\"type\": \"adagrad\", \"epsilon\": -1}}}]}}",
     "j.json:2:128: model.layers[0].table.optimizer.epsilon: adagrad: epsilon must be in "},
    {TABLE "\"table\": {\"initializer\": \"glorot\"}}]}}",
     "j.json:2:99: model.layers[0].table.initializer: \"glorot\" is none of zeros, constant, "
     "uniform, normal, truncated_normal"},
    {TABLE "\"table\": {\"initializer\": {\"type\": \"normal\", \"stddev\": \"a\"}}}]}}",
     "j.json:2:128: model.layers[0].table.initializer.stddev must be a number, not a string"},
    {"{" DATA ",\n\"model\": {\"type\": \"mlp\", \"hidden\": [4], \"ids\": 5}}",
     "j.json:2:41: a model of type \"mlp\" has no \"ids\""},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"dens\"}]}}",
     "j.json:2:49: model.layers[0].type: \"dens\" is none of .*; did you mean \"dense\"?"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"conv2d\", "
     "\"filters\": 2, \"padding\": 3}]}}",
     "j.json:2:84: model.layers[0].padding: 3 is not below the kernel, 3"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"conv1d\", "
     "\"filters\": 2, \"padding\": 1, \"causal\": true}]}}",
     "j.json:2:84: model.layers[0].padding: a causal layer pads by itself"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"dense\"}]}}",
     "j.json:2:40: \"units\" is missing in model.layers[0] (dense)"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"dense\", "
     "\"units\": 0}]}}",
     "j.json:2:67: model.layers[0].units: 0 is not in 1 to 1048576"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"embedding\", "
     "\"units\": 2}]}}",
     "j.json:2:40: \"ids\" is missing in model.layers[0] (embedding), or \"fields\""},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"embedding\", "
     "\"units\": 2, \"ids\": 16777217}]}}",
     "j.json:2:81: model.layers[0].ids: 16777217 is not in 1 to 16777216"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"flatten\"}, "
     "{\"type\": \"dropout\", \"rate\": 1}]}}",
     "j.json:2:89: model.layers[1].rate: 1 is not in 0 to 0.99"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"flatten\", "
     "\"units\": 3}]}}",
     "j.json:2:60: unknown key \"units\" in model.layers[0], which has type"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"transformer\", "
     "\"causal\": 1}]}}",
     "j.json:2:74: model.layers[0].causal must be true or false, not a whole number"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"activation\", "
     "\"activation\": \"rel\"}]}}",
     "j.json:2:77: model.layers[0].activation: \"rel\" is none of relu|sigmoid|tanh|gelu|softplus; "
     "did you mean \"relu\"?"},
    {"{" DATA ",\n\"model\": {\"type\": \"mlp\", \"hidden\": [4], \"wire\": \"bf61\"}}",
     "j.json:2:49: model.wire: \"bf61\" is none of f32|bf16; did you mean \"bf16\"?"},
    {"{" DATA ",\n\"model\": {\"type\": \"mlp\", \"hidden\": [4], \"wire\": 16}}",
     "j.json:2:49: model.wire: must be a string, not a whole number"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"dense\", "
     "\"units\": 2, \"wire\": \"bf61\"}]}}",
     "j.json:2:78: model.layers[0].wire: \"bf61\" is none of f32|bf16; did you mean \"bf16\"?"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"dense\", "
     "\"units\": 2, \"wire\": 1}]}}",
     "j.json:2:78: model.layers[0].wire must be a string, not a whole number"},
    {"{" DATA ",\n\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"flatten\", "
     "\"wire\": \"bf16\"}]}}",
     "j.json:2:60: unknown key \"wire\" in model.layers[0], which has type"},
    {"{" DATA ",\n\"model\": {\"type\": \"linear\"}}",
     "j.json:2:19: a linear model needs \"label_kind\": \"value\""},
    {"{" DATA ",\n" MODEL ",\n" MODEL "}", "j.json:3:7: duplicate object key"},
    {"{\n\"data\": oops}", "j.json:2:12: invalid token near 'oops'"},
    {"", "j.json:1:1: '[' or '{' expected near end of file"},
    {"[]", "j.json:1:1: the file must hold one JSON object"},
};

Test(job_file, names_file_line_and_column_of_what_is_wrong)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        int status = cadre_job_file_parse(&job, "j.json", examples[i].text);
        cr_expect_eq(status, CADRE_ECONFIG, "%zu: %d", i, status);
        const char *star = strstr(examples[i].error, ".*");
        const char *rest = star ? star + 2 : "";
        size_t length = star ? (size_t)(star - examples[i].error) : strlen(examples[i].error);
        cr_expect(strncmp(cadre_error_text(), examples[i].error, length) == 0 &&
                      strstr(cadre_error_text(), rest),
                  "%zu: %s\n instead of %s", i, cadre_error_text(), examples[i].error);
    }
}

/* The schedule of a file whose section "optimizer" is this. */
static cadre_schedule_t
schedule_of(const char *optimizer, double *initial)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_auto(cadre_free) char *text =
        cadre_asprintf("{" DATA ",\n" MODEL ",\n\"optimizer\": %s}", optimizer);
    cadre_job_init(&job);
    cr_assert_eq(cadre_job_file_parse(&job, "j.json", text), 0, "%s", cadre_error_text());
    *initial = job.optimizer_spec.parameters[CADRE_LEARNING_RATE];
    return cadre_schedule_spec_give(&job.optimizer_spec.schedule);
}

Test(job_file, reads_schedules_of_the_learning_rate)
{
    double initial = 0;
    cadre_schedule_t schedule =
        schedule_of("{\"type\": \"adam\", \"learning_rate\": {\"schedule\": \"cosine\", "
                    "\"initial\": 0.003, \"decay_steps\": 1000, \"warmup_steps\": 100, "
                    "\"alpha\": 0.1}}",
                    &initial);
    cr_assert(initial == 0.003 && schedule.kind == CADRE_SCHEDULE_COSINE);
    cr_assert(schedule.decay_steps == 1000 && schedule.warmup_steps == 100);
    cr_assert(schedule.alpha == 0.1 && schedule.warmup_initial == 0);

    schedule = schedule_of("{\"learning_rate\": {\"schedule\": \"piecewise_constant\", "
                           "\"boundaries\": [100, 200], \"values\": [1, 0.5, 0.1]}}",
                           &initial);
    cr_assert(initial == 1 && schedule.boundary_count == 2 && schedule.boundaries[1] == 200);
    cr_assert(schedule.values[0] == 0.5 && schedule.values[1] == 0.1);

    schedule = schedule_of("{\"learning_rate\": {\"schedule\": \"cosine_restarts\", "
                           "\"first_decay_steps\": 50}}",
                           &initial);
    cr_assert(initial == 0.01 && schedule.decay_steps == 50 && schedule.t_mul == 2);

    schedule = schedule_of("{\"learning_rate\": {\"schedule\": \"exponential\", "
                           "\"decay_steps\": 50, \"decay_rate\": 0.5, \"staircase\": true}}",
                           &initial);
    cr_assert(schedule.staircase && schedule.decay_rate == 0.5);
}

/* The scaled rate of a job of 16 rows a batch, with these keys in its sections. */
static cadre_optimizer_spec_t
scaled(const char *optimizer, const char *training)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{" DATA ",\n" MODEL ",\n\"optimizer\": {%s}, \"training\": {\"batch_size\": 16%s}}",
        optimizer, training);
    cadre_job_init(&job);
    cr_assert_eq(cadre_job_file_parse(&job, "j.json", text), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_job_finish(&job), 0, "%s", cadre_error_text());
    return cadre_job_optimizer_scaled(&job);
}

static double
scaled_rate(const char *keys, const char *training)
{
    cadre_auto(cadre_free) char *optimizer = cadre_asprintf("\"learning_rate\": 0.1, %s", keys);
    return scaled(optimizer, training).parameters[CADRE_LEARNING_RATE];
}

/* 0.1 times (rows of a step / base), or times the root of that. */
Test(job_file, scales_the_learning_rate_with_the_rows_of_a_step)
{
    static const char sync[] = ", \"consistency\": \"sync\", \"step_closures\": 4";
    cr_expect_eq(scaled_rate("\"scale_with\": \"none\"", sync), 0.1);
    cr_expect_eq(scaled_rate("\"scale_with\": \"linear\"", ""), 0.1, "one batch an update");
    cr_expect_float_eq(scaled_rate("\"scale_with\": \"linear\"", sync), 0.4, 1e-15);
    cr_expect_float_eq(scaled_rate("\"scale_with\": \"sqrt\"", sync), 0.2, 1e-15);
    static const char base[] = "\"scale_with\": \"linear\", \"base_batch_size\": 256";
    cr_expect_float_eq(scaled_rate(base, sync), 0.1 * 64 / 256, 1e-15);
    cr_expect_float_eq(scaled_rate(base, ""), 0.1 * 16 / 256, 1e-15);

    cadre_optimizer_spec_t spec =
        scaled("\"scale_with\": \"linear\", \"learning_rate\": {\"schedule\": "
               "\"piecewise_constant\", \"boundaries\": [5], \"values\": [0.1, 0.01], "
               "\"warmup_steps\": 3, \"warmup_initial\": 0.05}",
               sync);
    cr_expect_float_eq(
        cadre_schedule_spec_rate(&spec.schedule, spec.parameters[CADRE_LEARNING_RATE], 100), 0.04,
        1e-15);
    cr_expect_eq(spec.schedule.parameters[CADRE_SCHEDULE_WARMUP_INITIAL], 0.05, "not scaled");
}

Test(job_file, reads_everything_a_file_can_say)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    int status = cadre_job_file_parse(
        &job, "some/where/j.x.json",
        "{\"seed\": 7, \"data\": {\"dir\": \"d\", \"train\": {\"format\": \"csv\", \"path\": "
        "\"a\", "
        "\"scale\": 0.5, \"label\": 3}, \"test\": {\"fraction\": 0.25, \"seed\": 3}},"
        "\"model\": {\"type\": \"mlp\", \"hidden\": [8, 4], \"activation\": \"tanh\", "
        "\"dropout\": 0.5, \"l2\": 0.001},"
        "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.01},"
        "\"training\": {\"epochs\": 3, \"batch_size\": 16, \"shuffle\": false, "
        "\"target_accuracy\": 0.9},"
        "\"cluster\": {\"ps\": 3, \"workers\": 4, \"slots\": 5, \"max_restarts\": \"unlimited\", "
        "\"closure_deadline_s\": 2.5, \"shard_timeout_s\": 7, \"backup_attempts\": 3, "
        "\"ps_lanes\": 6},"
        "\"checkpoint\": {\"dir\": \"c\", \"every_s\": 1.5, \"keep\": 2}}");
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_job_finish(&job), 0);
    cr_assert_str_eq(job.name, "j");
    cr_assert_str_eq(job.folder, "some/where");
    cr_assert_str_eq(job.data_dir, "d");
    cr_assert_eq(job.seed, 7);
    cr_assert_float_eq(job.test_fraction, 0.25, 0);
    cr_assert_eq(job.test_seed, 3);
    cr_assert(job.hidden_count == 2 && job.hidden[0] == 8 && job.hidden[1] == 4);
    cr_assert_eq(job.activation, CADRE_ACTIVATION_TANH);
    cr_assert_str_eq(job.optimizer, "adam");
    cr_assert_float_eq(
        json_number_value(json_object_get(job.optimizer_parameters, "learning_rate")), 0.01, 0);
    cr_assert_eq((int)job.optimizer_spec.kind, CADRE_OPTIMIZER_ADAM);
    cr_assert_eq(job.optimizer_spec.parameters[CADRE_LEARNING_RATE], 0.01);
    cr_assert_eq((int)job.optimizer_spec.schedule.kind, 0);
    cr_assert(job.epochs == 3 && job.batch_size == 16 && !job.shuffle);
    cr_assert(job.ps == 3 && job.workers == 4 && job.slots == 5);
    cr_assert_eq(job.max_restarts, CADRE_JOB_RESTARTS_UNLIMITED);
    cr_assert_float_eq(job.closure_deadline_s, 2.5, 0);
    cr_assert_eq(job.shard_timeout_s, 7);
    cr_assert(job.backup_attempts == 3 && job.ps_lanes == 6);
    cr_assert_float_eq(job.checkpoint_every_s, 1.5, 0);
    cr_assert_str_eq(job.checkpoint_dir, "c");
}

Test(job_file, says_which_file_is_missing)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    cr_assert_eq(cadre_job_file_read(&job, "/nowhere/j.json"), CADRE_ENOTFOUND);
    cr_assert_str_eq(cadre_error_text(), "/nowhere/j.json: No such file or directory");
}

Test(job_file, gives_way_to_the_environment_and_both_to_a_flag)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    cr_assert_eq(job.ps, 1);
    cr_assert_eq(
        cadre_job_file_parse(&job, "j.json", "{" DATA "," MODEL ",\"cluster\":{\"ps\":2}}"), 0,
        "%s", cadre_error_text());
    cr_assert_eq(job.ps, 2);
    setenv("CADRE_PS", "3", 1);
    cr_assert_eq(cadre_job_set_environment(&job), 0);
    cr_assert_eq(job.ps, 3);
    cr_assert_eq(cadre_job_set(&job, "cluster.ps", "4", CADRE_ORIGIN_FLAG, "--ps"), 0);
    cr_assert_eq(job.ps, 4);
    setenv("CADRE_PS", "many", 1);
    cr_assert_eq(cadre_job_set_environment(&job), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "CADRE_PS: \"many\" is not a whole number");
}

/* The value of a setting as text, freed by the caller. */
static char *
text_of(const cadre_job_t *job, const char *name)
{
    size_t count = 0;
    const cadre_setting_t *settings = cadre_job_settings(&count);
    size_t i = 0;
    while (strcmp(settings[i].name, name) != 0) {
        i++;
        cr_assert_lt(i, count, "%s", name);
    }
    return cadre_job_text(job, &settings[i]);
}

/* 0 would be a target of its own. */
Test(job_file, has_no_number_where_none_is_given)
{
    static const char *const names[] = {"training.stop.at_least", "training.stop.at_most",
                                        "training.target_accuracy"};
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *none = text_of(&job, names[i]);
        cr_expect_str_eq(none, "", "%s", names[i]);
        cr_assert_eq(cadre_job_set(&job, names[i], "0", CADRE_ORIGIN_FLAG, names[i]), 0);
        cadre_auto(cadre_free) char *zero = text_of(&job, names[i]);
        cr_expect_str_eq(zero, "0", "%s", names[i]);
    }
}

Test(job_file, wants_held_out_rows_for_a_target)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    cr_assert_eq(cadre_job_file_parse(
                     &job, "j.json", "{" DATA "," MODEL ",\"training\":{\"target_accuracy\":0.5}}"),
                 0);
    cr_assert_eq(cadre_job_finish(&job), CADRE_ECONFIG);
}

Test(job_file, derives_the_checkpoint_folder_from_a_name_that_is_safe_as_a_path)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    cr_assert_eq(cadre_job_file_parse(&job, "x/digits.json", "{" DATA "," MODEL "}"), 0);
    cr_assert_eq(cadre_job_finish(&job), 0);
    cr_assert_str_eq(job.checkpoint_dir, "cadre-checkpoints/digits");
    cr_assert_eq(cadre_job_set(&job, "name", "../up", CADRE_ORIGIN_FLAG, "--name"), 0);
    cr_assert_eq(cadre_job_finish(&job), CADRE_ECONFIG);
}

Test(job_file, reads_how_a_table_keeps_its_rows)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    int status = cadre_job_file_parse(
        &job, "j.json",
        TABLE "\"table\": {\"storage\": \"bf16\", \"admit_after\": 3, \"rows_max\": 1000, "
              "\"when_full\": \"lfu\", \"age_max\": 7, \"norm_min\": 0.5, \"row_wise\": true, "
              "\"group_lasso\": 0.25, \"initializer\": {\"type\": \"normal\", \"stddev\": 0.1}, "
              "\"optimizer\": {\"type\": \"adagrad\", \"learning_rate\": 0.5}}}]}}");
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_job_finish(&job), 0, "%s", cadre_error_text());
    const cadre_table_options_t options =
        cadre_layer_table_options(&job.layers[0].table, &job.optimizer_spec);
    cr_expect_eq(options.storage, CADRE_BF16);
    cr_expect_eq(options.admit_after, 3);
    cr_expect_eq(options.rows_max, 1000);
    cr_expect_eq(options.when_full, CADRE_TABLE_FULL_LFU);
    cr_expect_eq(options.age_max, 7);
    cr_expect_eq(options.norm_min, 0.5);
    cr_expect(options.row_wise);
    cr_expect_eq(options.group_lasso, 0.25);
    cr_expect_eq(options.initializer.kind, CADRE_INITIALIZER_NORMAL);
    cr_expect_eq(options.initializer.stddev, 0.1);
    cr_expect_eq(options.optimizer.kind, CADRE_OPTIMIZER_ADAGRAD);
    cr_expect_eq(options.optimizer.learning_rate, 0.5);
}

Test(job_file, takes_a_table_for_a_model_over_items)
{
    static const char *const models[] = {"\"table\": true",
                                         "\"table\": {\"admit_after\": 2}, \"fields\": 3"};
    for (size_t i = 0; i < CADRE_COUNT_OF(models); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text = cadre_asprintf(VALUES "%s}}", models[i]);
        cr_assert_eq(cadre_job_file_parse(&job, "j.json", text), 0, "%s", cadre_error_text());
        cr_assert_eq(cadre_job_finish(&job), 0, "%s", cadre_error_text());
        cr_expect(job.lookup.table.is_table);
        cr_expect_eq(job.lookup.field_count, 3 * i);
        cr_expect_eq(job.lookup.table.spec.admit_after, 2 * i);
        cr_expect_eq(cadre_model_check(&job), 0, "%s", cadre_error_text());
    }
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    cr_assert_eq(cadre_job_file_parse(&job, "j.json",
                                      VALUES
                                      "\"table\": true}, \"optimizer\": {\"use_ema\": true}}"),
                 0);
    cr_expect_eq(cadre_job_finish(&job), CADRE_ECONFIG);
    cr_expect(strstr(cadre_error_text(), "j.json: model.table does not go with optimizer.use_ema"),
              "%s", cadre_error_text());
}

Test(job_file, refuses_keys_of_64_bits_where_no_layers_take_them)
{
#define KEYED                                                                                      \
    "\"format\": \"csv\", \"label_kind\": \"binary\", \"columns\": [\"a\", {\"column\": \"u\", "   \
    "\"key\": \"id\"}]"
#define CRITEO "\"format\": \"criteo\", \"keys\": true"
    static const struct {
        const char *data;
        const char *model;
        const char *error;
    } cases[] = {
        {KEYED, "\"logistic\"", "j.json:1:108: data.train.columns[1].key does not go with"},
        {KEYED, "\"factorization_machine\", \"table\": true",
         "puts together with \"table\": true and \"keys\": true"},
        {CRITEO, "\"logistic\"",
         "data.train.keys does not go with this model of type \"logistic\""},
        {CRITEO, "\"mlp\", \"hidden\": [4]", "\"layers\", with a layer that has \"table\" and"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "{\"data\": {\"train\": {\"path\": \"a\", %s}},\n\"model\": {\"type\": %s}}",
            cases[i].data, cases[i].model);
        cr_expect_eq(cadre_job_file_parse(&job, "j.json", text), CADRE_ECONFIG, "%zu", i);
        cr_expect(strstr(cadre_error_text(), cases[i].error), "%zu: %s", i, cadre_error_text());
    }
}

/* A row of such a model is keys alone: a bag of them or, with fields, one in each column. */
Test(job_file, reads_models_over_keys_of_64_bits)
{
#define COLUMN(number, rest) "{\"column\": " #number rest "}"
#define OF_CSV(columns)      "\"format\": \"csv\", \"header\": false, \"columns\": [" columns "]"
#define ONE                  COLUMN(0, ", \"key\": \"id\"")
#define TWO                  COLUMN(1, ", \"key\": \"word\"")
#define BAG                  COLUMN(0, ", \"key\": \"id\", \"items\": 4")
#define OF_TABLE             ", \"table\": true, \"keys\": true"
#define AND_TEST             "}, \"test\": {\"path\": \"b\", \"label_kind\": \"binary\", "
    static const struct {
        const char *data;
        const char *model;
        const char *error;
    } cases[] = {
        {"\"format\": \"libsvm\", \"items\": 4, \"keys\": true", OF_TABLE, NULL},
        {OF_CSV(BAG), OF_TABLE, NULL},
        {OF_CSV(ONE ", " TWO), OF_TABLE ", \"fields\": 2", NULL},
        {"\"format\": \"npy\", \"labels_path\": \"b\"", OF_TABLE, NULL},
        {OF_CSV(BAG), ", \"keys\": true", "\"keys\" in model: only a \"table\" has rows by keys"},
        {OF_CSV(ONE), OF_TABLE, "without \"fields\" the rows of data.train are one column"},
        {OF_CSV(BAG ", " BAG), OF_TABLE,
         "without \"fields\" the rows of data.train are one column"},
        {OF_CSV(COLUMN(0, ", \"items\": 4")), OF_TABLE, "one column with \"key\" and \"items\""},
        {OF_CSV(ONE ", 1"), OF_TABLE ", \"fields\": 2", "2 fields are as many columns"},
        {OF_CSV(ONE ", " TWO), OF_TABLE ", \"fields\": 3", "3 fields are as many columns"},
        {OF_CSV(BAG ", " TWO), OF_TABLE ", \"fields\": 2", "none with \"items\""},
        {"\"format\": \"libsvm\", \"items\": 4, \"features\": 9", OF_TABLE,
         "indices of a LIBSVM file are keys with"},
        {"\"format\": \"libsvm\", \"items\": 3, \"keys\": true", OF_TABLE ", \"fields\": 4",
         "no \"fields\" in model"},
        {CRITEO, OF_TABLE, "that has \"columns\": [13, 78], \"table\" and \"keys\": true"},
        {"\"format\": \"text\", \"vocabulary\": 9", OF_TABLE, "words are no keys of 64 bits"},
        {OF_CSV(BAG) AND_TEST OF_CSV(BAG), OF_TABLE, NULL},
        {OF_CSV(BAG) AND_TEST OF_CSV(COLUMN(0, ", \"hash\": 9, \"items\": 8")), OF_TABLE,
         "rows of data.test are one column"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "{\"data\": {\"train\": {\"path\": \"a\", \"label_kind\": \"binary\", %s}},\n"
            "\"model\": {\"type\": \"logistic\"%s}}",
            cases[i].data, cases[i].model);
        const int status = cadre_job_file_parse(&job, "j.json", text);
        cr_expect_eq(status, cases[i].error ? CADRE_ECONFIG : 0, "%zu: %s", i, cadre_error_text());
        cr_expect(!cases[i].error || strstr(cadre_error_text(), cases[i].error), "%zu: %s", i,
                  cadre_error_text());
        cr_expect(status < 0 || job.lookup.keys, "%zu", i);
    }
}

Test(job_file, refuses_with_a_table_what_needs_all_rows)
{
    static const struct {
        const char *table;
        const char *rest;
        const char *wanted;
    } jobs[] = {
        {"true", "\"optimizer\": {\"use_ema\": true}", "optimizer.use_ema"},
        {"true", "\"training\": {\"delay_compensation\": 1}", "training.delay_compensation"},
        {"true", "\"training\": {\"local_steps\": 2}", NULL},
        {"true",
         "\"optimizer\": {\"type\": \"adamw\"}, \"training\": {\"local_steps\": 2, \"inner\": "
         "{\"type\": \"adam\"}}",
         "optimizer adamw is not for tables"},
        {"true", "\"training\": {\"local_steps\": 2, \"inner\": {\"type\": \"adamw\"}}",
         "local steps of adamw"},
        {"{\"optimizer\": \"adagrad\"}", "\"training\": {\"local_steps\": 2}",
         "an optimizer of its own and local steps"},
        {"true", "\"optimizer\": {\"type\": \"rmsprop\"}", "optimizer rmsprop is not for tables"},
        {"{\"row_wise\": true}", "\"seed\": 1", "row_wise is for adagrad, not for sgd"},
        {"{\"when_full\": \"lru\"}", "\"seed\": 1", "when_full needs rows_max"},
        {"{\"optimizer\": \"adagrad\"}", "\"optimizer\": {\"type\": \"rmsprop\"}", NULL},
        {"true", "\"optimizer\": {\"type\": \"adam\", \"lazy\": true}", NULL},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(jobs); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text =
            cadre_asprintf(TABLE "\"table\": %s}]}, %s}", jobs[i].table, jobs[i].rest);
        cr_assert_eq(cadre_job_file_parse(&job, "j.json", text), 0, "%s", cadre_error_text());
        const int status = cadre_job_finish(&job);
        cr_expect_eq(status, jobs[i].wanted ? CADRE_ECONFIG : 0, "%s", cadre_error_text());
        cr_expect(!jobs[i].wanted || (strstr(cadre_error_text(), "j.json: model.layers[0].table") &&
                                      strstr(cadre_error_text(), jobs[i].wanted)),
                  "%s", cadre_error_text());
    }
}

/* Of a model that has other weights, those are penalised. */
Test(job_file, refuses_penalties_that_only_a_table_would_have)
{
#define LAYER(rest)                                                                                \
    "\"layers\", \"layers\": [{\"type\": \"factorization_machine\", \"table\": true" rest
    static const struct {
        const char *model;
        const char *wanted;
    } jobs[] = {
        {LAYER(", \"l2\": 0.1}]"), "j.json: model.layers[0].table does not go with l1 and l2"},
        {LAYER(", \"l1\": 0.1}]"), "model.layers[0].table does not go with l1 and l2"},
        {LAYER(", \"l2\": 0}]"), NULL},
        {LAYER("}], \"l2\": 0.1"), NULL},
        {"\"logistic\", \"table\": true, \"l2\": 0.1", "model.table does not go with l1 and l2"},
        {"\"factorization_machine\", \"table\": true, \"l1\": 1", "model.table does not go with"},
        {"\"logistic\", \"ids\": 9, \"l2\": 0.1", NULL},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(jobs); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\", \"label_kind\": "
            "\"binary\"}}, \"model\": {\"type\": %s}}",
            jobs[i].model);
        cr_assert_eq(cadre_job_file_parse(&job, "j.json", text), 0, "%s", cadre_error_text());
        const int status = cadre_job_finish(&job);
        cr_expect_eq(status, jobs[i].wanted ? CADRE_ECONFIG : 0, "%zu: %s", i, cadre_error_text());
        cr_expect(!jobs[i].wanted || strstr(cadre_error_text(), jobs[i].wanted), "%zu: %s", i,
                  cadre_error_text());
    }
}

/* Six numbers of a row are three indices with their values, or a key and a half. */
Test(job_file, layers_over_items_of_libsvm_take_keys_where_the_data_have_them)
{
    static const struct {
        const char *ids;
        const char *layer;
        const char *wanted;
    } jobs[] = {
        {"\"keys\": true", ", \"keys\": true", NULL},
        {"\"features\": 9", "", NULL},
        {"\"keys\": true", "",
         "j.json:1:121: model.layers[0] needs \"table\" and \"keys\": true: with \"keys\" in "
         "data.train an index is a key, three numbers of a row"},
        {"\"features\": 9", ", \"keys\": true",
         "model.layers[0].keys: indices are no keys: that needs \"keys\": true, and no "
         "\"features\", in data.train"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(jobs); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "{\"data\": {\"train\": {\"format\": \"libsvm\", \"path\": \"a\", \"items\": 6, %s}}, "
            "\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"embedding_bag\", "
            "\"units\": 4, \"table\": true%s}]}}",
            jobs[i].ids, jobs[i].layer);
        const int status = cadre_job_file_parse(&job, "j.json", text);
        cr_expect_eq(status, jobs[i].wanted ? CADRE_ECONFIG : 0, "%s", cadre_error_text());
        cr_expect(!jobs[i].wanted || strstr(cadre_error_text(), jobs[i].wanted), "%s",
                  cadre_error_text());
    }
}

Test(job_file, refuses_a_test_file_of_keys_where_that_of_training_has_none)
{
    static const char *const ids[] = {"\"keys\": true", "\"features\": 9"};
    for (int i = 0; i < 4; i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "{\"data\": {\"train\": {\"format\": \"libsvm\", \"path\": \"a\", \"items\": 6, %s}, "
            "\"test\": {\"format\": \"libsvm\", \"path\": \"b\", \"items\": 6, %s}}, "
            "\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"embedding_bag\", "
            "\"units\": 4, \"table\": true%s}]}}",
            ids[i / 2], ids[i % 2], i / 2 == 0 ? ", \"keys\": true" : "");
        const bool differ = i / 2 != i % 2;
        cr_expect_eq(cadre_job_file_parse(&job, "j.json", text), differ ? CADRE_ECONFIG : 0, "%s",
                     cadre_error_text());
        cr_expect(!differ || strstr(cadre_error_text(), "data.train and data.test differ in keys"),
                  "%s", cadre_error_text());
    }
}

Test(job_file, reads_layers_with_their_defaults)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    int status = cadre_job_file_parse(
        &job, "j.json",
        "{" DATA ", \"model\": {\"type\": \"layers\", \"input\": [8, 4, 2], \"layers\": ["
        "{\"type\": \"conv2d\", \"filters\": 5, \"padding\": 1},"
        "{\"type\": \"max_pool2d\", \"stride\": 1},"
        "{\"type\": \"dense\", \"units\": 7, \"activation\": \"gelu\"},"
        "{\"type\": \"transformer\", \"heads\": 2, \"causal\": true, \"dropout\": 0.25}]}}");
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cr_assert(job.input_rank == 3 && job.input[0] == 8 && job.input[2] == 2);
    cr_assert_eq(job.layer_count, 4);
    const cadre_layer_t *layers = job.layers;
    cr_assert(layers[0].type == CADRE_LAYER_CONV2D && layers[0].units == 5);
    cr_assert(layers[0].size == 3 && layers[0].stride == 1 && layers[0].padding == 1);
    cr_assert_eq(layers[0].activation, CADRE_ACTIVATION_NONE);
    cr_assert(layers[1].type == CADRE_LAYER_MAX_POOL2D && layers[1].size == 2);
    cr_assert_eq(layers[1].stride, 1);
    cr_assert(layers[2].units == 7 && layers[2].activation == CADRE_ACTIVATION_GELU);
    cr_assert(layers[3].heads == 2 && layers[3].causal && layers[3].units == 0);
    cr_assert_eq(layers[3].activation, CADRE_ACTIVATION_GELU);
    cr_assert_float_eq(layers[3].rate, 0.25, 0);
}

/* `count` times the same layer, or number, joined by commas. */
static char *
repeated(const char *one, int count)
{
    char *text = cadre_strdup(one);
    for (int i = 1; i < count; i++) {
        char *longer = cadre_asprintf("%s, %s", text, one);
        free(text);
        text = longer;
    }
    return text;
}

Test(job_file, limits_layers_filters_and_axes)
{
    static const struct {
        const char *model;
        const char *one;
        int limit;
    } cases[] = {
        {"\"type\": \"layers\", \"layers\": [%s]", "{\"type\": \"flatten\"}", 64},
        {"\"type\": \"cnn\", \"input\": [8, 8, 1], \"filters\": [%s]", "4", 16},
        {"\"type\": \"layers\", \"layers\": [], \"input\": [%s]", "4", 3},
        {"\"type\": \"mlp\", \"hidden\": [%s]", "4", 32},
    };
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(cases); i++) {
        int over = (int)(i % 2);
        cadre_auto(cadre_free) char *list = repeated(cases[i / 2].one, cases[i / 2].limit + over);
        const char *format = cases[i / 2].model;
        int before = (int)(strstr(format, "%s") - format);
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "{" DATA ", \"model\": {%.*s%s%s}}", before, format, list, format + before + 2);
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cadre_job_init(&job);
        cr_expect_eq(cadre_job_file_parse(&job, "j.json", text), over ? CADRE_ECONFIG : 0,
                     "%zu: %s", i, cadre_error_text());
    }
}

/* Reads a job that holds rows out; `rest` is what it has besides. */
static int
finish_with(cadre_job_t *job, const char *rest)
{
    cadre_auto(cadre_free) char *text = cadre_asprintf(
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a.csv\"}, \"test\": "
        "{\"fraction\": 0.5}}, " MODEL ", %s}",
        rest);
    cadre_job_init(job);
    int status = cadre_job_file_parse(job, "j.json", text);
    return status < 0 ? status : cadre_job_finish(job);
}

Test(job_file, reads_when_training_stops)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    int status = finish_with(
        &job, "\"training\": {\"evaluate_every\": 2, \"steps_per_epoch\": 7, \"stop\": "
              "{\"steps\": 100, \"seconds\": 1.5, \"metric\": \"test_accuracy\", \"at_least\": "
              "0.97, \"patience\": 3, \"min_delta\": 0.01}}, "
              "\"checkpoint\": {\"keep_best\": \"test_loss\"}");
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cr_assert(job.steps_per_epoch == 7 && job.stop_steps == 100);
    cr_assert_float_eq(job.stop_seconds, 1.5, 0);
    cr_assert(job.stop.metric == CADRE_METRIC_ACCURACY && job.stop.has_target);
    cr_assert_float_eq(job.stop.target, 0.97, 0);
    cr_assert_eq(job.stop.patience, 3);
    cr_assert_float_eq(job.stop.min_delta, 0.01, 0);
    cr_assert_eq(job.checkpoint_keep_best, CADRE_METRIC_LOSS + 1);
    cr_assert(cadre_job_watches(&job));
}

Test(job_file, reads_which_metrics_evaluations_find)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    int status = finish_with(&job, "\"training\": {\"top_k\": 3, \"evaluate_every\": 1, "
                                   "\"metrics\": [\"f1\", \"top_k_accuracy\"], \"stop\": "
                                   "{\"metric\": \"test_f1\", \"at_least\": 0.5}}");
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cr_assert(job.metrics[CADRE_METRIC_F1] && job.metrics[CADRE_METRIC_TOP_K]);
    cr_assert_not(job.metrics[CADRE_METRIC_PRECISION] || job.confusion_matrix);
    cr_assert(cadre_job_counts_confusion(&job) && job.top_k == 3);
    cr_assert_eq(job.stop.metric, CADRE_METRIC_F1);
}

Test(job_file, counts_times_from_a_millisecond_on_in_flags_too)
{
    static const char *const names[] = {"cluster.closure_deadline_s", "checkpoint.every_s",
                                        "training.stop.seconds"};
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cr_expect_eq(cadre_job_set(&job, names[i], "0.0009", CADRE_ORIGIN_FLAG, "--some-time"),
                     CADRE_EINVALID, "%s", names[i]);
        cr_expect(strstr(cadre_error_text(), "--some-time: 0.0009 s is shorter than 0.001 s"), "%s",
                  cadre_error_text());
        cr_expect_eq(cadre_job_set(&job, names[i], "0.001", CADRE_ORIGIN_FLAG, "--some-time"), 0);
        cr_expect_eq(cadre_job_set(&job, names[i], "0", CADRE_ORIGIN_FLAG, "--some-time"), 0);
    }
}

Test(job_file, refuses_conditions_that_cannot_stop_training)
{
    static const struct {
        const char *rest;
        const char *error;
    } cases[] = {
        {"\"training\": {\"stop\": {\"step\": 5}}",
         "unknown key \"step\" in training.stop; did you mean \"steps\"?"},
        {"\"training\": {\"stop\": 5}", "training.stop must be an object, not a whole number"},
        {"\"training\": {\"stop\": {\"steps\": -1}}", "training.stop.steps: -1 is not in 0 to"},
        {"\"training\": {\"stop\": {\"seconds\": 0.0001}}",
         "training.stop.seconds: 0.0001 s is shorter than 0.001 s, the least time"},
        {"\"cluster\": {\"closure_deadline_s\": 0.0009}",
         "cluster.closure_deadline_s: 0.0009 s is shorter than 0.001 s, the least time"},
        {"\"cluster\": {\"ps_timeout_s\": 0.0001}",
         "cluster.ps_timeout_s: 0.0001 is not in 0.1 to 86400"},
        {"\"cluster\": {\"wait_s\": 0.0001}", "cluster.wait_s: 0.0001 is not in 0.1 to 86400"},
        {"\"checkpoint\": {\"every_s\": 1e-9}",
         "checkpoint.every_s: 1e-09 s is shorter than 0.001 s, the least time"},
        {"\"training\": {\"evaluate_every\": 1, \"stop\": {\"metric\": \"test_acuracy\"}}",
         "did you mean \"test_accuracy\"?"},
        {"\"training\": {\"metrics\": [\"f1\", \"f2\"]}",
         "training.metrics: this is none of precision, recall, f1, auc, mae, rmse, "
         "top_k_accuracy, calibration_error, auc_exact, confusion_matrix; did you mean \"f1\"?"},
        {"\"training\": {\"metrics\": [1]}", "this is none of precision"},
        {"\"training\": {\"metrics\": \"f1\"}", "training.metrics must be an array"},
        {"\"training\": {\"metrics\": [\"auc\"]}",
         "there is no auc of labels of this kind, \"class\""},
        {"\"training\": {\"evaluate_every\": 1, \"stop\": {\"metric\": \"test_f1\", "
         "\"patience\": 1}}",
         "training.stop: name \"f1\" in training.metrics too"},
        {"\"training.stop\": {\"steps\": 5}", "unknown key \"training.stop\" in the job"},
        {"\"training\": {\"stop\": {\"patience\": 5}}",
         "training.stop looks at evaluations on the way: say after how many epochs"},
        {"\"training\": {\"evaluate_every\": 1, \"stop\": {\"metric\": \"test_loss\"}}",
         "training.stop.metric: say when it stops training"},
        {"\"training\": {\"evaluate_every\": 1, \"plateau\": {\"factor\": 0.5}}",
         "training.plateau: say after how many evaluations"},
        {"\"training\": {\"plateau\": {\"patience\": 5}}",
         "training.plateau looks at evaluations on the way"},
        {"\"training\": {\"evaluate_every\": 1, \"stop\": {\"min_delta\": 1}}",
         "training.stop.min_delta goes with patience"},
        {"\"training\": {\"evaluate_every\": 1, \"stop\": {\"at_least\": 1}}",
         "training.stop.at_least: of test_loss lower values are better: \"at_most\" is meant"},
        {"\"training\": {\"evaluate_every\": 1, \"stop\": {\"metric\": \"test_accuracy\", "
         "\"at_most\": 1}}",
         "of test_accuracy higher values are better: \"at_least\" is meant"},
        {"\"training\": {\"evaluate_every\": 1}, \"checkpoint\": {\"dir\": \"none\", "
         "\"keep_best\": \"test_loss\"}",
         "checkpoint.keep_best needs checkpoints"},
        {"\"checkpoint\": {\"dir\": \"none\", \"every_steps\": 5}",
         "j.json: checkpoint.every_steps needs checkpoints, but checkpoint.dir is \"none\""},
        {"\"checkpoint\": {\"dir\": \"none\", \"every_epochs\": 1}",
         "j.json: checkpoint.every_epochs needs checkpoints, but checkpoint.dir is \"none\""},
        {"\"checkpoint\": {\"keep_best\": \"test_loss\"}",
         "checkpoint.keep_best looks at evaluations on the way"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        cr_expect_eq(finish_with(&job, cases[i].rest), CADRE_ECONFIG, "%s", cases[i].rest);
        cr_expect(strstr(cadre_error_text(), cases[i].error), "%s: %s", cases[i].rest,
                  cadre_error_text());
    }
}
