"""The API of memory: the `router` of each module of this folder."""

from importlib import import_module
from pkgutil import iter_modules

from ninja import Router

router = Router(tags=["memory"])
for module in iter_modules(__path__, f"{__name__}."):
    operations = getattr(import_module(module.name), "router", None)
    if operations is not None:
        router.add_router("", operations)
