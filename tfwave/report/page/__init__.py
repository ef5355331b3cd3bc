"""One self-contained page of what a run, a capture or a plan tells, and the same facts as Markdown."""
