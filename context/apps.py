from django.apps import AppConfig


class ContextConfig(AppConfig):
    name = "context"
    verbose_name = "Context"

    def ready(self) -> None:
        from context.models import ContextRun, Expectation
        from identity.services.change_feed import bodies, body_loader
        from memory.registrations import erasers, job_handlers, job_sources, large_tables, request_logs
        from memory.transfer.export_tables import TABLES

        bodies["expectation"] = body_loader(Expectation.objects.all, "context.expectations.api.ExpectationOut")
        erasers += ["context.services.erasure.context_erase", "context.services.erasure.expectations_erase"]
        large_tables.append(ContextRun)
        request_logs.append(ContextRun)
        job_handlers["expectation_check"] = "context.expectations.cause_bisection.EXPECTATION_CHECK"
        job_sources.append("context.expectations.cause_bisection.checks_queue")
        TABLES.append(Expectation)
