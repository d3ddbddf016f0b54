"""ParameterServerStrategy: what `--strategy parameter_server` does. One process for each chief, worker and
ps, started with a TF_CONFIG that lists all of them and says which one this is."""
import tensorflow as tf

import digits

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type,
                         task_index=resolver.task_id, protocol="grpc").join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    model = digits.compiled_model()
    model.optimizer.build(model.trainable_variables)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(batches):
    def replica_step(rows):
        x, y = rows
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    strategy.run(replica_step, args=(next(batches),))


@tf.function
def batches_of_a_worker():
    return strategy.distribute_datasets_from_function(
        lambda context: digits.train_rows().repeat().batch(digits.BATCH))


batches = iter(coordinator.create_per_worker_dataset(batches_of_a_worker))
for epoch in range(digits.EPOCHS):
    for _ in range(len(digits.train_x) // digits.BATCH):
        coordinator.schedule(step, args=(batches,))
    coordinator.join()
digits.report(model)
