"""What traced steps tell of memory: which op allocates what, what shares it, and when it is free again."""

from tfwave.bundle.memory.captured import CapturedMemory as CapturedMemory
from tfwave.bundle.memory.captured import captured_memory as captured_memory
