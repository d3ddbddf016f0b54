"""MultiWorkerMirroredStrategy: what `--strategy multi_worker` does. One process for each worker, started
with a TF_CONFIG that lists all of them and says which one this is."""
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else that uses TensorFlow

import digits  # noqa: E402

with strategy.scope():
    model = digits.compiled_model()
    model.optimizer.build(model.trainable_variables)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
batch = digits.BATCH * strategy.num_replicas_in_sync


@tf.function
def step(batches):
    def replica_step(rows):
        x, y = rows
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) / strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    strategy.run(replica_step, args=(next(batches),))


batches = iter(strategy.experimental_distribute_dataset(digits.train_rows().repeat().batch(batch)))
for _ in range(digits.EPOCHS * len(digits.train_x) // batch):
    step(batches)
digits.report(model)
