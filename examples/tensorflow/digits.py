"""The digits of examples/data for the programs beside: a random fifth is held out, as in digits.json."""
import os

import numpy as np
import tensorflow as tf

BATCH, EPOCHS = 32, 40
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "digits.csv.gz")

table = np.random.default_rng(1).permutation(np.loadtxt(PATH, delimiter=",", dtype=np.float32))
x, y = table[:, :64] / 16, table[:, 64].astype(np.int32)
train_x, train_y, test_x, test_y = x[359:], y[359:], x[:359], y[:359]


def train_rows():
    return tf.data.Dataset.from_tensor_slices((train_x, train_y)).shuffle(len(train_x))


def compiled_model():
    model = tf.keras.Sequential([tf.keras.Input([64]), tf.keras.layers.Dense(128, "relu"),
                                 tf.keras.layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    return model


def report(model):
    """Prints the accuracy on the rows that were held out."""
    logits = model(test_x).numpy()
    print(f"accuracy={np.mean(logits.argmax(1) == test_y):.4f}")
