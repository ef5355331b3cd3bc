"""What was seen of a run: was the order kept, how long did steps take; as figures, traces, pages and pictures."""
