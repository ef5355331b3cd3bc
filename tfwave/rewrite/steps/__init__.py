"""One step of a job: what it runs, what of it conflicts, what it draws, and its copies."""
