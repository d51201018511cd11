"""Memory over HTTP: one router per store."""

from ninja import Router

from memory.api.censors import router as censors_router
from memory.api.facts import router as facts_router

router = Router(tags=["memory"])
router.add_router("", facts_router)
router.add_router("", censors_router)
