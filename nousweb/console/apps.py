from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """All that people see. It has no models: its rows are those of the apps below it."""

    name = "nousweb.console"
    label = "console"
    verbose_name = "Console"
