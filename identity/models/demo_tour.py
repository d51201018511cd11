"""The progress of a person in the guided demo."""

from django.conf import settings
from django.db import models

from nousweb.lib import clock


class DemoTour(models.Model):
    """A person who is guided through the demo data; only the people whom the demo created have a row.

    The audit trail since `began_at` shows the finished steps. The agent is named and not referred to, so that it can be
    erased.
    """

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="demo_tour")
    agent_slug = models.CharField(max_length=50)
    began_at = models.DateTimeField(default=clock.now)
    left_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"Guided demo of {self.person}"
