"""Memory over HTTP: one router per store."""

from ninja import Router

from memory.api.facts import router as facts_router

router = Router(tags=["memory"])
router.add_router("", facts_router)
