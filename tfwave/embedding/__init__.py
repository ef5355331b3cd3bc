"""Tables of embeddings on parameter servers or on workers, whose rows travel while the worker computes."""

from tfwave.embedding.captured import capture as capture
from tfwave.embedding.staged import Call as Call
from tfwave.embedding.staged import Staged as Staged
from tfwave.embedding.staged import staged as staged
from tfwave.embedding.workers import Workers as Workers
from tfwave.kept.policies import LFU as LFU
from tfwave.kept.policies import LRU as LRU
from tfwave.kept.policies import Score as Score
from tfwave.runtime.embedding.dynamic import Dynamic as Dynamic
from tfwave.runtime.embedding.optimizers import SGD as SGD
from tfwave.runtime.embedding.optimizers import Adagrad as Adagrad
from tfwave.runtime.embedding.optimizers import RowWiseAdagrad as RowWiseAdagrad
from tfwave.runtime.embedding.owners import Pulled as Pulled
from tfwave.runtime.embedding.table import Table as Table
