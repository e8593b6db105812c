"""The network that the baselines train: Keras 3 on TensorFlow, imported only when a network is really needed."""
