"""What holds for all tests."""

import os

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
"""Not AMX: a virtual machine may announce it, and end a process that multiplies bfloat16 there."""
