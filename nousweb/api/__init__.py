"""The API: one object that only adds routers."""

import functools
from typing import Any

from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.openapi.docs import Swagger
from ninja.openapi.schema import OpenAPISchema

from context.api import router as context_router
from context.api.fingerprints import router as fingerprint_router
from context.api.recall import router as recall_router
from context.api.settings import router as settings_router
from context.expectations.api import router as expectation_router
from identity.api import router as identity_router
from identity.api.changes import router as change_router
from identity.api.webhooks import router as webhook_router
from memory.api import router as memory_router
from nousweb.access.api_authentication import PersonAuth, TokenAuth, authenticated_caller
from nousweb.api import errors as api_errors
from nousweb.api.query_parameters import unknown_parameters_refused


class Api(NinjaAPI):
    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """The document, which says of every operation that it refuses with problem+json; not to be changed.

        It is made once for each prefix: that takes half a second, and whoever asks for it needs no token.
        """
        return self._document(self.get_root_path(path_params or {}) if path_prefix is None else path_prefix)

    @functools.lru_cache(maxsize=4)  # noqa: B019  (there is one API, for as long as the process lives)
    def _document(self, path_prefix: str) -> OpenAPISchema:
        document = super().get_openapi_schema(path_prefix=path_prefix)
        problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        for operations in document["paths"].values():
            for operation in operations.values():
                responses = {str(status): response for status, response in operation["responses"].items()}
                for status, response in responses.items():
                    if int(status) >= 400:
                        (schema,) = response["content"].values()
                        response["content"] = {"application/problem+json": schema}
                responses["default"] = {"description": "Any other refusal", "content": problem}
                operation["responses"] = responses
        return document


api = Api(
    title="Nous Web",
    version="1",
    description="What agents remember, believe and are told.",
    auth=[authenticated_caller, TokenAuth(), PersonAuth()],
    # Sorted by address: the operations of a noun stand together.
    docs=Swagger({"operationsSorter": "alpha", "defaultModelsExpandDepth": -1}),
    docs_decorator=require_safe,
)
api_errors.register(api)
api.add_decorator(unknown_parameters_refused, mode="view")
# Addresses are looked for in this order: what is asked for most comes first.
api.add_router("", context_router)
api.add_router("", recall_router)
api.add_router("", identity_router)
api.add_router("", change_router)
api.add_router("", webhook_router)
api.add_router("", memory_router)
api.add_router("", fingerprint_router)
api.add_router("", settings_router)
api.add_router("", expectation_router)
