"""Several trainings in one process, under one memory limit (Waterwave)."""

from tfwave.colocate.advice import Advice as Advice
from tfwave.colocate.advice import advise as advise
from tfwave.colocate.background import Background as Background
from tfwave.colocate.background import BackgroundReport as BackgroundReport
from tfwave.colocate.colocating import run as run
from tfwave.colocate.handle import Handle as Handle
from tfwave.colocate.job import Job as Job
from tfwave.colocate.job import SessionStep as SessionStep
from tfwave.colocate.limits import gpu_options as gpu_options
from tfwave.colocate.limits import limit_memory as limit_memory
from tfwave.colocate.limits import planned_pool as planned_pool
from tfwave.colocate.pool import Pool as Pool
from tfwave.colocate.profile import captured_step as captured_step
from tfwave.colocate.results import JobResult as JobResult
from tfwave.colocate.results import Results as Results
from tfwave.memory.colocation import Policy as Policy
from tfwave.runtime.beside import background_batch as background_batch
from tfwave.runtime.beside import background_step as background_step
from tfwave.runtime.lowered import background_session as background_session
