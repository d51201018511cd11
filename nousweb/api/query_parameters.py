"""Refuse query parameters that an operation does not have, as request bodies refuse unknown fields."""

import functools
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja.errors import ValidationError
from ninja.operation import Operation

AGENT = "agent"
"""People may name the agent in every call, also where the id in the address already does."""

Run = Callable[..., HttpResponseBase]


def unknown_parameters_refused(run: Run) -> Run:
    """A decorator for the `run` of every operation. Callers are authenticated before their parameters are judged."""
    operation: Operation = run.__self__  # type: ignore[attr-defined]
    known = {AGENT}
    for model in operation.models:
        if model.__ninja_param_source__ == "query":
            known.update(model.__ninja_flatten_map__)

    @functools.wraps(run)
    def checked(request: HttpRequest, **values: Any) -> HttpResponseBase:
        unknown = [name for name in request.GET if name not in known]
        if not unknown:
            return run(request, **values)
        errors = [{"loc": ("query", name[:60]), "msg": "Extra inputs are not permitted"} for name in unknown]
        return operation._run_checks(request) or operation.api.on_exception(request, ValidationError(errors))

    return checked
