"""The API: one object that only adds routers."""

from ninja import NinjaAPI

from context.api import router as context_router
from identity.api import router as identity_router
from memory.api import router as memory_router
from nousweb import errors
from nousweb.auth import PersonAuth, TokenAuth

api = NinjaAPI(
    title="Nous Web",
    version="1",
    description="What agents remember, believe and are told.",
    auth=[TokenAuth(), PersonAuth()],
    docs_url=None,
)
errors.register(api)
api.add_router("", identity_router)
api.add_router("", memory_router)
api.add_router("", context_router)
