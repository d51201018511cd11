"""Services that learn facts and change them."""

from memory.services.facts.confirm import fact_confirm, fact_unconfirm
from memory.services.facts.edit import fact_edit
from memory.services.facts.invalidate import fact_invalidate
from memory.services.facts.learn import LearnResult, fact_learn
from memory.services.facts.merge import fact_merge
from memory.services.facts.precheck import Precheck, fact_precheck
from memory.services.facts.replace import fact_replace
from memory.services.facts.restore import fact_restore
from memory.services.facts.supersede import fact_supersede

__all__ = [
    "LearnResult",
    "Precheck",
    "fact_confirm",
    "fact_edit",
    "fact_invalidate",
    "fact_learn",
    "fact_merge",
    "fact_precheck",
    "fact_replace",
    "fact_restore",
    "fact_supersede",
    "fact_unconfirm",
]
