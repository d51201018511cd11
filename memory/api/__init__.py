"""The API of memory: one router per store."""

from ninja import Router

from memory.api.censors import router as censors_router
from memory.api.decisions import router as decisions_router
from memory.api.documents import router as documents_router
from memory.api.episodes import router as episodes_router
from memory.api.events import router as events_router
from memory.api.facts import router as facts_router
from memory.api.lifecycle import router as lifecycle_router
from memory.api.loops import router as loops_router
from memory.api.procedures import router as procedures_router
from memory.api.profile import router as profile_router
from memory.api.reviews import router as reviews_router
from memory.api.search_index import router as search_index_router
from memory.api.subjects import router as subjects_router
from memory.api.working import router as working_router

router = Router(tags=["memory"])
router.add_router("", facts_router)
router.add_router("", profile_router)
router.add_router("", subjects_router)
router.add_router("", events_router)
router.add_router("", loops_router)
router.add_router("", search_index_router)
router.add_router("", censors_router)
router.add_router("", decisions_router)
router.add_router("", episodes_router)
router.add_router("", procedures_router)
router.add_router("", documents_router)
router.add_router("", working_router)
router.add_router("", reviews_router)
router.add_router("", lifecycle_router)
