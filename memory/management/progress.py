"""Progress of a management command, on standard error."""

from django.core.management.base import OutputWrapper

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
        elif int(share * 10) > self.printed:
            self.printed = int(share * 10)
            self.stream.write(f"{share:4.0%} {text}")

    def end(self) -> None:
        """Leave the bar's line."""
        if self.drawn:
            self.stream.write("")
