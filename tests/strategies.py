"""Strategies of `tf.distribute`, with as much of TensorFlow's as is asked for: how they are told apart."""


class MirroredStrategy:
    pass


class OneDeviceStrategy:
    pass


class ParameterServerStrategy:
    _is_parameter_server_strategy_v2 = True


class CollectiveAllReduceStrategy:
    """That is what TensorFlow's `MultiWorkerMirroredStrategy` is called."""
