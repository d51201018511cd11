from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The console. It has no models of its own."""

    name = "nousweb.console"
    label = "console"
    verbose_name = "Console"
