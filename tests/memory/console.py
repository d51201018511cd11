"""How tests of the console sign in."""

from django.contrib.auth.models import User
from django.test import Client


def browser(user: User) -> Client:
    """A browser of `user`; whether forms carry their token is tested for every page at once elsewhere."""
    client = Client()
    client.force_login(user)
    return client
