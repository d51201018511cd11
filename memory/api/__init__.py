"""The API of memory: the `router` of each module of this folder but `common`."""

from importlib import import_module
from pkgutil import iter_modules

from ninja import Router

router = Router(tags=["memory"])
for module in iter_modules(__path__):
    if module.name != "common":
        router.add_router("", import_module(f"{__name__}.{module.name}").router)
