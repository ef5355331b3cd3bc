"""The `tfwave` command: one file per command, and what several of them print, read and write."""
