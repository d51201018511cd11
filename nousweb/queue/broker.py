"""The queue as the worker reads it: only tasks of the list come out, also those that a former secret signed."""

from typing import Any

import structlog
from django.conf import settings
from django.core.signing import BadSignature
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.core_signing import loads
from django_q.signing import PickleSerializer, SignedPackage

from nousweb.queue.allowed_tasks import function_name, refusal_record, task_allowed

log = structlog.get_logger(__name__)


def allowed_only(broker: Any, packages: list[tuple[Any, Any]] | None) -> list[tuple[Any, Any]] | None:
    """The packages whose task may run; the others leave the queue with a record of the refusal."""
    if packages is None:
        return None
    signed = [(key, _signed(package)) for key, package in packages]
    return [package for package in signed if _may_run(broker, *package)]


def _signed(package: Any) -> Any:
    """A package that a former secret signed, signed by the one of now; any other as it is."""
    for secret in settings.SECRET_KEY_FALLBACKS:
        try:
            return SignedPackage.dumps(loads(package, key=secret, salt=Conf.PREFIX, serializer=PickleSerializer))
        except Exception:  # noqa: S112  (not of this secret, or nothing that can be read: what follows says so)
            continue
    return package


def _may_run(broker: Any, key: Any, package: Any) -> bool:
    try:
        task = SignedPackage.loads(package)
    except (TypeError, BadSignature):
        # django-q drops what was not signed with our key, without opening it.
        return True
    except Exception as error:  # Signed, and yet nothing that can be read: it must not stop what stands behind it.
        task = type(error).__name__
    if task_allowed(task):
        return True
    asked = function_name(task.get("func") if isinstance(task, dict) else task)
    log.error("task_refused", function=asked)
    broker.fail(key)
    refusal_record(asked)
    return False


class CheckedOrm(ORM):
    """The queue in the database."""

    def dequeue(self) -> list[tuple[Any, Any]] | None:
        return allowed_only(self, super().dequeue())
