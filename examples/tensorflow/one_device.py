"""OneDeviceStrategy: what `--strategy local` does."""
import tensorflow as tf

import digits

strategy = tf.distribute.OneDeviceStrategy("/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0")
with strategy.scope():
    model = digits.compiled_model()
model.fit(digits.train_rows().batch(digits.BATCH), epochs=digits.EPOCHS, verbose=2)
digits.report(model)
