"""Until when a person had looked at Home before: kept in their browser, so that reading a page writes nothing."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from identity.models import SignIn
from identity.principal import Principal
from nousweb.lib import clock

COOKIE = "last_visit"
BREAK = timedelta(minutes=30)
"""A visit is over when Home was not opened for so long."""
LONGEST = timedelta(days=30)
"""What changed before is no news."""
FIRST = timedelta(days=14)
"""The time that is told of where no earlier visit is known."""
_KEPT = timedelta(days=400)
_VALUE = re.compile(r"(\d{1,10})\.(\d{1,10})\.(\d{1,10})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Visit:
    """A person's visit: the earlier one lasted until `since`, and in this one Home was last opened at `at`."""

    person: int
    since: datetime
    at: datetime
    is_first: bool = False
    """No earlier one is known; `since` is then two weeks ago."""

    @property
    def told_since(self) -> datetime:
        """The moment from which changes are news."""
        return max(self.since, self.at - LONGEST)

    def keep(self, response: HttpResponse) -> None:
        """Let the person's browser remember the visit."""
        since = 0 if self.is_first else int(self.since.timestamp())
        value = f"{self.person}.{since}.{int(self.at.timestamp())}"
        response.set_cookie(
            COOKIE, value, max_age=_KEPT, httponly=True, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE
        )


def visit_of(request: HttpRequest, by: Principal) -> Visit:
    """The present visit. In a browser that knows of none, the earlier one was the last log-in elsewhere."""
    now, person = clock.now(), int(by.id)
    kept = _VALUE.fullmatch(request.COOKIES.get(COOKIE, ""))
    if kept is None or int(kept[1]) != person:
        others = SignIn.objects.filter(person_id=person, created_at__lt=now - BREAK).exclude(
            session_key=request.session.session_key or ""
        )
        earlier = others.order_by("-created_at").values_list("created_at", flat=True).first()
        return Visit(person, earlier or now - FIRST, now, is_first=earlier is None)
    since, at = (datetime.fromtimestamp(int(kept[place]), UTC) for place in (2, 3))
    if now - at > BREAK:
        return Visit(person, at, now)
    return Visit(person, min(since, now), now) if int(kept[2]) else Visit(person, now - FIRST, now, is_first=True)
