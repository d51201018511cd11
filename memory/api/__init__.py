"""The API of memory: the `router` of each module of this folder that has one."""

from importlib import import_module
from pkgutil import iter_modules

from ninja import Router

router = Router(tags=["memory"])
for module in iter_modules(__path__):
    operations = import_module(f"{__name__}.{module.name}")
    if hasattr(operations, "router"):
        router.add_router("", operations.router)
