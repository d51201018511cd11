from django.apps import AppConfig


class ContextConfig(AppConfig):
    name = "context"
    verbose_name = "Context"

    def ready(self) -> None:
        from context.expectations.jobs import EXPECTATION_CHECK, HANDLER, checks_queue
        from context.models import ContextRun, Expectation
        from context.services.erasure import context_erase, expectations_erase
        from identity.services.change_bodies import bodies, body_loader
        from memory.lifecycle.handlers import HANDLERS
        from memory.lifecycle.runner import job_sources
        from memory.services.erasure import erasers, large_tables
        from memory.transfer.export_tables import TABLES

        bodies["expectation"] = body_loader(Expectation.objects.all, "context.expectations.schemas.ExpectationOut")
        erasers.extend([context_erase, expectations_erase])
        large_tables.append(ContextRun)
        HANDLERS[HANDLER] = EXPECTATION_CHECK
        job_sources.append(checks_queue)
        TABLES.append(Expectation)
