"""CentralStorageStrategy: what `--strategy central` does."""
import tensorflow as tf

import digits

strategy = tf.distribute.experimental.CentralStorageStrategy()
with strategy.scope():
    model = digits.compiled_model()
batch = digits.BATCH * strategy.num_replicas_in_sync
model.fit(digits.train_rows().batch(batch), epochs=digits.EPOCHS, verbose=2)
digits.report(model)
