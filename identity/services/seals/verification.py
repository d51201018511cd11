"""Verify rows against the seals: every row, every leaf, every link, and external copies of the seals.

The worker verifies in parts, when people ask and once a day.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Max, Q

from identity.models import LogHole, LogLeaves, LogSeal, LogVerification
from identity.policy.sealed_tables import FORMAT, LATE, SEALED_TABLES, VERIFY_EVERY, VERIFY_SECONDS, VIEW, SealedTable
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.seals.checks import (
    Report,
    SealFinding,
    holes_of_seal,
    of_row,
    of_seal,
    receipts_check,
    unsealed_check,
)
from identity.services.seals.sealer import (
    HASH,
    NUMBER,
    SALT,
    Leaf,
    Row,
    content_hash,
    is_blank,
    leaf_of,
    node_of,
    rows_read,
    seal_values,
    values_hash,
)
from nousweb.lib import Conflict, NotAllowed, clock
from nousweb.lib.merkle_tree import tree_root
from nousweb.lib.transactions import sql_change

BATCH = 50
Chain = tuple[str, int | None, str]


class Verification:
    """One pass over the seals in their order, in as many steps as its caller likes.

    With `agent_id` only the seals of that agent; then the links between all seals are not looked at.
    """

    def __init__(self, report: Report | None = None, *, agent_id: int | None = None, after: int = 0) -> None:
        self.report = report or Report()
        self.agent_id = agent_id
        self.serial = after
        self._previous = ""
        self._heads: dict[Chain, LogSeal] = {}
        self._floors: dict[str, int] = {}
        if after and (last := LogSeal.objects.filter(serial=after).first()):
            self._previous = last.hash
            done = LogSeal.objects.filter(serial__lte=after)
            for seal in done.order_by("kind", "agent_id", "persona", "-number").distinct("kind", "agent_id", "persona"):
                self._heads[_chain(seal)] = seal
            self._floors = dict(done.exclude(floor=None).values_list("kind").order_by("kind").annotate(Max("floor")))

    def step(self, seals: int = BATCH) -> bool:
        """Check the next seals; returns whether there are more."""
        with one_snapshot():
            rows = LogSeal.objects.filter(serial__gt=self.serial).order_by("serial")
            if self.agent_id is not None:
                rows = rows.filter(agent_id=self.agent_id)
            found = list(rows[:seals])
            serials = [seal.serial for seal in found]
            leaves = {row.seal_id: row for row in LogLeaves.objects.filter(seal__in=serials)}
            holes: dict[int, list[LogHole]] = defaultdict(list)
            for hole in LogHole.objects.filter(seal__in=serials):
                holes[hole.seal_id].append(hole)
            for seal in found:
                self._seal_check(seal, leaves.get(seal.serial), holes.get(seal.serial, []))
                self.serial = seal.serial
        return len(found) == seals

    def finish(self) -> Report:
        """Check rows without a seal, and receipts against their tombstones."""
        with one_snapshot():
            unsealed_check(self.report, self.agent_id)
            receipts_check(self.report, self.agent_id)
        return self.report

    def _seal_check(self, seal: LogSeal, leaves: LogLeaves | None, holes: Sequence[LogHole]) -> None:
        report, chain = self.report, _chain(seal)
        report.seals += 1
        if seal.hash != values_hash(seal_values(seal)):
            report.add(of_seal("seal_altered", seal, "was altered: its hash does not match its content"))
        if self.agent_id is None:
            if seal.serial != self.serial + 1:
                report.add(_missing(self.serial + 1, seal.serial - 1))
            elif seal.previous != self._previous:
                report.add(of_seal("seal_altered", seal, "does not follow from the seal before it"))
            self._previous = seal.hash
        head = self._heads.get(chain)
        expected = (head.number + 1, head.first + head.count, head.hash) if head else (1, 1, "")
        if (seal.number, seal.first, seal.chain_previous) != expected:
            report.add(of_seal("seal_missing", seal, "does not follow from the last seal of its chain"))
        self._heads[chain] = seal
        table = SEALED_TABLES.get(seal.kind)
        if table is None or seal.format != FORMAT:
            report.add(of_seal("seal_altered", seal, "has an unknown kind or format"))
        elif leaves is None:
            report.add(of_seal("leaves_altered", seal, "has lost its leaves"))
        else:
            self._leaves_check(table, seal, leaves, holes, head)

    def _leaves_check(
        self, table: SealedTable, seal: LogSeal, leaves: LogLeaves, holes: Sequence[LogHole], head: LogSeal | None
    ) -> None:
        report = self.report
        found = list(leaves_of(table, leaves))
        root = tree_root([node_of(leaf.key, leaf.content) for leaf in found]).hex()
        sizes = {len(found), len(bytes(leaves.contents)) // HASH, len(bytes(leaves.salts)) // SALT}
        if table.blanks:
            sizes.add(len(bytes(leaves.digests or b"")) // HASH)
        if root != seal.root or sizes != {seal.count} or leaves.kind != seal.kind:
            report.add(of_seal("leaves_altered", seal, "does not match its leaves, which were altered"))
        if table.numbered:
            keys = [int(leaf.key) for leaf in found if NUMBER.fullmatch(leaf.key)]
            if keys and (leaves.first_key, leaves.last_key) != (min(keys), max(keys)):
                report.add(of_seal("leaves_altered", seal, "has leaves whose keys do not match their content"))
            floor = max(self._floors.get(table.name, 0), seal.floor or 0)
            if table.by_chain:
                floor = (head.floor or 0) if head else 0
            else:
                self._floors[table.name] = floor
            for key in keys:
                if key <= floor:
                    report.add(of_row("inserted", seal, table, str(key), "was inserted among rows sealed before"))
        rows = rows_read(table, [leaf.key for leaf in found])
        full, blank = holes_of_seal(report, table, seal, holes)
        edited: dict[str, tuple[Row, Leaf]] = {}
        for slot, leaf in enumerate(found, 1):
            report.rows += 1
            row = rows.get(leaf.key)
            if slot in full:
                report.holes += 1
                if row is not None:
                    report.add(of_row("edited", seal, table, leaf.key, "was erased, but exists again"))
            elif row is None:
                report.add(of_row("missing", seal, table, leaf.key, "is missing, and no receipt records its erasure"))
            elif slot in blank:
                report.holes += 1
                if not is_blank(row) or content_hash(table, row, leaf.digest) != leaf.content:
                    report.add(of_row("edited", seal, table, leaf.key, "was emptied by an erasure, and edited since"))
            elif leaf_of(table, row, leaf.salt) != leaf:
                edited[leaf.key] = row, leaf
            elif row.at and seal.since and row.at < seal.since - LATE and not self._is_born(seal):
                what = f"was inserted: its time is {row.at:%Y-%m-%d %H:%M} UTC, and was not there then"
                report.add(of_row("inserted", seal, table, leaf.key, what))
        self._edited_report(table, seal, edited)

    def _edited_report(self, table: SealedTable, seal: LogSeal, edited: Mapping[str, tuple[Row, Leaf]]) -> None:
        """Report rows that differ from their sealed state, first those with the content of another row."""
        for key, (row, leaf) in edited.items():
            what, code = "was edited after it was sealed", "edited"
            if len(edited) <= BATCH:
                for other, (_, held) in edited.items():
                    moved = row._replace(key=other)
                    if other != key and leaf_of(table, moved, held.salt).content == held.content:
                        what, code = f"says what {table.label.lower()} {other} said when it was sealed", "reordered"
            self.report.add(of_row(code, seal, table, leaf.key, what))

    def _is_born(self, seal: LogSeal) -> bool:
        """Whether its chain began in the same round: an import brings an agent with its past."""
        first = LogSeal.objects.filter(kind=seal.kind, agent_id=seal.agent_id, persona=seal.persona, number=1).first()
        return first is None or first.since == seal.since


def leaves_of(table: SealedTable, leaves: LogLeaves) -> Iterator[Leaf]:
    """The leaves of a seal, one after another."""
    contents, salts, digests = bytes(leaves.contents), bytes(leaves.salts), bytes(leaves.digests or b"")
    for at, key in enumerate(leaves.keys):
        digest = digests[at * HASH : (at + 1) * HASH] if table.blanks else b""
        yield Leaf(key, contents[at * HASH : (at + 1) * HASH], salts[at * SALT : (at + 1) * SALT], digest)


def exported_check(report: Report, lines: Sequence[Mapping[str, Any]], agent_id: int | None = None) -> None:
    """Compare the seals with copies of them that were kept elsewhere."""
    for line in lines:
        values = {name: value for name, value in line.items() if name != "hash"}
        serial = line.get("serial")
        if not isinstance(serial, int) or line.get("hash") != values_hash(values):
            report.add(
                SealFinding("outside", f"The exported seal {serial} is damaged: its hash does not match its content.")
            )
            continue
        if agent_id is not None and line.get("agent_id") != agent_id:
            continue
        seal = LogSeal.objects.filter(serial=serial).only("serial", "hash", "agent_id", "persona").first()
        if seal is None:
            report.add(SealFinding("outside", f"Seal {serial} was exported, but no longer exists.", serial=serial))
        elif seal.hash != line["hash"]:
            report.add(of_seal("outside", seal, "is different from the exported one: the chain was recomputed"))


@contextmanager
def one_snapshot() -> Iterator[None]:
    """Read everything as of one moment, so that an erasure meanwhile is seen whole or not at all."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        sql_change("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _missing(first: int, last: int) -> SealFinding:
    many = f"Seals {first} to {last} are missing, or out of their order."
    return SealFinding("seal_missing", f"Seal {first} is missing." if first == last else many, serial=first)


def _chain(seal: LogSeal) -> Chain:
    return seal.kind, seal.agent_id, seal.persona


Status = LogVerification.Status
KEPT_FINDINGS = 200
LOST_AFTER = timedelta(minutes=3)
"""A part that has said nothing for so long was left by a worker that is gone."""


@transaction.atomic
def verification_request(*, by: Principal) -> LogVerification:
    """Ask for the log to be checked against its seals. Raises NotAllowed, and Conflict while it is being checked."""
    by.require(VIEW)
    if by.agents is not None:
        raise NotAllowed(
            "A verification checks the whole log, so only people with access to all agents can request it."
        )
    if LogVerification.objects.filter(status__in=(Status.WAITING, Status.RUNNING)).exists():
        raise Conflict("A verification is already running.")
    found = LogVerification.objects.create(asked_by=by.name)
    audit_record(by=by, action="log.verify", target=found, agent=None, label="The log")
    return found


def verification_continue() -> int:
    """Go on with the verification that waits or has begun, or begin the daily one; returns how many rows it saw."""
    found = LogVerification.objects.filter(status__in=(Status.WAITING, Status.RUNNING)).order_by("pk").first()
    if found is None:
        young = LogVerification.objects.filter(asked_at__gt=clock.now() - VERIFY_EVERY).exists()
        if young or not LogSeal.objects.exists():
            return 0
        found = LogVerification.objects.create(asked_by="schedule")
    now = clock.now()
    free = Q(worked_at=None) | Q(worked_at__lt=now - LOST_AFTER)
    if not LogVerification.objects.filter(free, pk=found.pk).update(worked_at=now):
        return 0
    return _work(found)


def _work(found: LogVerification) -> int:
    if found.status == Status.WAITING:
        found.status, found.started_at = Status.RUNNING, clock.now()
        found.last_serial = LogSeal.objects.aggregate(last=Max("serial"))["last"] or 0
    report = Report(problems=found.problems, rows=found.rows, holes=found.holes)
    verification = Verification(report, after=found.serial)
    end, begun, more = time.monotonic() + VERIFY_SECONDS, found.rows, True
    while more and time.monotonic() < end:
        more = verification.step()
        _save(found, report, verification.serial, worked_at=clock.now())
    if not more:
        verification.finish()
        found.status, found.finished_at = Status.DONE, clock.now()
        if report.problems:
            audit_record(
                by=Principal.of_system("worker"),
                action="log.problem",
                target=found,
                agent=None,
                label="The log",
                after={"problems": report.problems},
                message="Rows do not match their seals.",
            )
    _save(found, report, verification.serial, worked_at=None)
    return report.rows - begun


def _save(found: LogVerification, report: Report, serial: int, *, worked_at: object) -> None:
    free = max(0, KEPT_FINDINGS - len(found.findings))
    found.findings += map(asdict, report.findings[:free])
    report.findings.clear()
    found.serial, found.rows, found.holes, found.problems = serial, report.rows, report.holes, report.problems
    found.worked_at = worked_at  # type: ignore[assignment]
    found.save()
