"""Progress of a management command that reads a file, on standard error."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management.base import CommandError, OutputWrapper

from nousweb.lib import DomainError

WIDTH = 30


class ProgressBar:
    """A bar that is drawn over itself on a terminal, and a line every tenth elsewhere."""

    def __init__(self, stream: OutputWrapper) -> None:
        self.stream = stream
        self.drawn = False
        self.printed = -1

    def show(self, share: float, text: str) -> None:
        """Show that `share` (0 to 1) is done; `text` says it in numbers."""
        share = min(max(share, 0.0), 1.0)
        if self.stream.isatty():
            filled = round(share * WIDTH)
            self.stream.write(f"\r[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%} {text}\033[K", ending="")
            self.stream.flush()
            self.drawn = True
        elif int(share * 10) != self.printed:
            self.printed = int(share * 10)
            self.stream.write(f"{share:4.0%} {text}")


@contextmanager
def file_progress(stream: OutputWrapper, path: Path, refusal: str = "{name}, {why}") -> Iterator[ProgressBar]:
    """A bar while the file at `path` is read. Refusals and errors of the file become messages that name it."""
    bar = ProgressBar(stream)
    try:
        yield bar
    except DomainError as error:
        raise CommandError(refusal.format(name=path.name, why=error.detail)) from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    finally:
        if bar.drawn:
            stream.write("")
