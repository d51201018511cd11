from django.contrib.auth.management.commands import createsuperuser

from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand, createsuperuser.Command):
    """Django's command, which makes an owner, with a message for a name that is refused."""
