"""How the nodes of further waves, and those that join waves, are called."""

SCOPE = "tick_tock"


def wave_name(name: str, wave: int) -> str:
    """The name of a node or tensor in a wave: ``loss:0`` -> ``tick_tock/1/loss:0``; wave 0 keeps its names."""
    return f"{SCOPE}/{wave}/{name}" if wave else name
