"""How far a person is with the guided demo."""

from django.conf import settings
from django.db import models

from nousweb.lib import clock


class DemoTour(models.Model):
    """That a person is guided through the demo data; only the people whom the demo made have a row.

    What they have done stands in the audit trail, since `began_at`. The agent is named and not referred to, so that it
    can be erased.
    """

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="demo_tour")
    agent_slug = models.CharField(max_length=50)
    began_at = models.DateTimeField(default=clock.now)
    left_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"Guided demo of {self.person}"
