"""What every command does with an error that its user can mend."""

import errno
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tfwave.errors import TfwaveError


@contextmanager
def said_in_one_line() -> Generator[None]:
    """End the process with exit code 2 and one line on standard error."""
    try:
        yield
    except TfwaveError as error:
        _end(str(error))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _end(f"{error.strerror}: not all of the output was written")


def _end(error: str) -> None:
    sys.stderr.write(f"tfwave: error: {error}\n")
    sys.exit(2)
