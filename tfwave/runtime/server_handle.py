"""The TF_Server behind a `tf.distribute.Server`: private API of TensorFlow, touched here only."""

import builtins
import ctypes
import re
from collections.abc import Callable
from typing import Any, cast

from tfwave.errors import EnforcerError
from tfwave.runtime.native import tensorflow_version

_POINTER_OFFSET = 2 * ctypes.sizeof(ctypes.c_void_p)  # a pybind11 instance's value
_WRAPPER_TYPE = ("tensorflow.python.client._pywrap_tf_session", "TF_Server")
_CONDUIT = "_pybind11_conduit_v1_"
_TYPE_INFO = b"St9type_info"  # typeid(std::type_info).name()
_INTERNALS = re.compile("__pybind11_internals_v[0-9]+(.*)__")

_PYTHON: Any = ctypes.pythonapi
_new_capsule: Callable[..., Any] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", _PYTHON))
_capsule_name: Callable[..., bytes] = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", _PYTHON)
)
_capsule_pointer: Callable[..., int] = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _PYTHON)
)


def server_handle(server: Any, server_type: int) -> ctypes.c_void_p:
    """The `TF_Server*` of a server, valid as long as `server` is.

    Case 1: the wheel's pybind11 has a conduit (TensorFlow 2.21): it is asked.
    Case 2: an older one has none (2.19, 2.20): the pointer is the first field of pybind11's instance.

    Args:
        server: a `tf.distribute.Server`.
        server_type: the address of TF_Server's `std::type_info`.

    Raises:
        EnvironmentUnsupported: a TensorFlow whose layout is not known.
        EnforcerError: not a `tf.distribute.Server`, or the conduit does not give its pointer.
    """
    version = tensorflow_version()
    wrapper: Any = getattr(server, "_server", None)
    found = cast(type[object], type(wrapper))
    if (found.__module__, found.__name__) != _WRAPPER_TYPE:
        raise EnforcerError(
            f"a {type(server).__name__} cannot be wrapped (TensorFlow {version}): pass a tf.distribute.Server"
        )
    if not hasattr(wrapper, _CONDUIT):
        return ctypes.c_void_p.from_address(id(wrapper) + _POINTER_OFFSET)
    for platform in _platforms():
        capsule = getattr(wrapper, _CONDUIT)(
            platform, _new_capsule(server_type, _TYPE_INFO, None), b"raw_pointer_ephemeral"
        )
        if capsule is not None:
            return ctypes.c_void_p(_capsule_pointer(capsule, _capsule_name(capsule)))
    raise EnforcerError(
        f"TensorFlow {version} does not give away its server: start a tfwave.Server instead of wrapping one"
    )


def _platforms() -> list[bytes]:
    """What pybind11 calls the binary interfaces of the modules in this process."""
    found = filter(None, map(_INTERNALS.fullmatch, sorted(vars(builtins))))
    return [match[1].encode() for match in found]
