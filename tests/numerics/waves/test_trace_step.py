"""Steps that cannot be traced for waves."""

from functools import partial
from typing import Any

import pytest

from tfwave.errors import EnforcerError
from tfwave.runtime.waves.step import trace_step

pytestmark = pytest.mark.tensorflow


class Step:
    def __call__(self, batch: Any, scale: float = 1.0) -> Any:
        return scale * batch


@pytest.mark.parametrize(("step", "name"), [(Step(), "Step"), (partial(Step(), scale=2.0), "partial")])
def test_one_that_xla_is_to_compile_is_refused_though_it_has_no_name(step: Any, name: str) -> None:
    tf: Any = __import__("tensorflow")
    compiled = tf.function(step, jit_compile=True)
    with pytest.raises(EnforcerError, match=f"XLA is to compile the step '{name}'"):
        trace_step(compiled, (tf.constant(1.0),))
