"""What the trace of a step of this process tells of memory."""
