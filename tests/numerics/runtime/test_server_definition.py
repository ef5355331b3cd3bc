"""What a server is told of its cluster."""

from types import MappingProxyType
from typing import Any

import pytest

from tfwave.runtime.server import _definition

pytestmark = pytest.mark.tensorflow


def test_a_cluster_is_a_mapping_or_what_a_resolver_gives(tf: Any) -> None:
    cluster = {"ps": ["a:1"], "worker": {0: "b:2", 3: "c:4"}}
    spec = tf.train.ClusterSpec(cluster)
    for given in (cluster, MappingProxyType(cluster), spec, spec.as_cluster_def()):
        definition = _definition(given, "worker", 3, None)
        assert tf.train.ClusterSpec(definition.cluster) == spec
        assert (definition.job_name, definition.task_index) == ("worker", 3)
