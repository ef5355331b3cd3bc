"""Of ten million rows a step takes memory for its batch only. tools/bench/table_rows.py has its times."""

import numpy as np
import pytest

from tests.ports import free_ports
from tfwave.embedding import Workers
from tools.bench.table_rows import WAYS, Steps

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(120)]

ROWS, WIDTH, BATCH = 10**7, 2, 256


@pytest.mark.parametrize("way", WAYS)
def test_a_step_takes_no_memory_for_rows_that_no_batch_has(way: str) -> None:
    with Workers([f"127.0.0.1:{free_ports(1)[0]}"], 0) as group:
        steps = Steps(way, ROWS, WIDTH, BATCH, group)
        steps.block(8)  # traces
        assert steps.block(16)["peak_bytes"] < ROWS * WIDTH * 4 / 8
        changed = np.count_nonzero(steps.table.shards[0].numpy().any(1))
    assert 20 * BATCH < changed <= 24 * BATCH
