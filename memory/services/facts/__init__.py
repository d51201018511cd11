"""Services that learn facts and change them."""

from memory.services.facts.changes import (
    fact_confirm,
    fact_edit,
    fact_expiry_set,
    fact_invalidate,
    fact_restore,
    fact_unconfirm,
)
from memory.services.facts.learn import fact_learn, fact_replace
from memory.services.facts.reconcile import LearnResult, Precheck, fact_precheck
from memory.services.facts.repeated_facts import fact_merge, fact_supersede

__all__ = [
    "LearnResult",
    "Precheck",
    "fact_confirm",
    "fact_edit",
    "fact_expiry_set",
    "fact_invalidate",
    "fact_learn",
    "fact_merge",
    "fact_precheck",
    "fact_replace",
    "fact_restore",
    "fact_supersede",
    "fact_unconfirm",
]
