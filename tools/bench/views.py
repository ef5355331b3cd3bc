"""What docs/measured.md shows of each record, by its name."""

from tools.bench.bursts.views import VIEWS as BURSTS
from tools.bench.embeddings.views import VIEWS as EMBEDDINGS
from tools.bench.memory.views import VIEWS as MEMORY
from tools.bench.reduces.views import VIEWS as REDUCES
from tools.bench.transfers.views import VIEWS as TRANSFERS
from tools.gpu.views import VIEWS as GPU

VIEWS = {**BURSTS, **EMBEDDINGS, **GPU, **MEMORY, **REDUCES, **TRANSFERS}
