"""A library, tried once: does this TensorFlow tell it what it cannot do without?"""

import signal
from pathlib import Path

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime.own_process import run_apart

_NAME_BYTES = 1024
_OF_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What ends a trial by these, such as a full memory, says nothing of the library."""
_TRY = f"""
import ctypes, sys
import tensorflow as tf
tf.load_library(sys.argv[1])
function = tf.function(lambda: tf.constant(1)).get_concrete_function()
function()
told, fault = ctypes.create_string_buffer({_NAME_BYTES}), ctypes.create_string_buffer({_NAME_BYTES})
size = ctypes.c_int64({_NAME_BYTES})
if ctypes.CDLL(sys.argv[1]).tfwave_last_function(told, size, fault, size):
    sys.exit(fault.value.decode(errors="replace"))
name = function.function_def.signature.name
if told.value.decode() != name:
    sys.exit(f"the function {{name}} is shown to graph passes as '{{told.value.decode()}}'")
"""


def try_out(library: Path) -> None:
    """Load a library into a process of its own, and run a function there: the library must learn its name.

    The field in which TensorFlow tells graph passes of a function's name is meant for file names, and may go.

    Raises:
        EnvironmentUnsupported: it does not; plans for functions could not be told apart.
        EnforcerError: nothing is known after five minutes, or as the trial was ended.
    """
    tried = run_apart(_TRY, str(library), does=f"tried {library}")
    if -tried.returncode in _OF_OTHERS:
        raise EnforcerError(
            f"the trial of {library} was ended by {signal.Signals(-tried.returncode).name}: start again, with more "
            "memory if there was none left"
        )
    if tried.returncode:
        why = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
        raise EnvironmentUnsupported(
            f"the send hook does not work with this TensorFlow ({why}): use a supported version, or the proxy"
        )
