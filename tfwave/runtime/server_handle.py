"""The TF_Server behind a `tf.distribute.Server`: private API of TensorFlow, touched here only."""

import ctypes
from typing import Any, cast

from tfwave.errors import EnforcerError
from tfwave.runtime.native import tensorflow_version

_POINTER_OFFSET = 2 * ctypes.sizeof(ctypes.c_void_p)  # a pybind11 instance's value
_WRAPPER_TYPE = ("tensorflow.python.client._pywrap_tf_session", "TF_Server")


def server_handle(server: Any) -> ctypes.c_void_p:
    """The `TF_Server*` of a server, valid as long as `server` is.

    Raises:
        EnvironmentUnsupported: a TensorFlow whose layout is not known.
        EnforcerError: not a `tf.distribute.Server`.
    """
    version = tensorflow_version()
    wrapper: Any = getattr(server, "_server", None)
    found = cast(type[object], type(wrapper))
    if (found.__module__, found.__name__) != _WRAPPER_TYPE:
        raise EnforcerError(
            f"a {type(server).__name__} cannot be wrapped (TensorFlow {version}): pass a tf.distribute.Server"
        )
    return ctypes.c_void_p.from_address(id(wrapper) + _POINTER_OFFSET)
