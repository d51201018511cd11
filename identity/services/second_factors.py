"""The second factor of people: they set it up themselves, the log-in requires it, an owner resets it.

Codes are those of RFC 6238, as in every authenticator app. A code is accepted once; wrong ones are counted per person,
from whatever address, since the sender has entered the right password already.
"""

import base64
import secrets
from datetime import datetime, timedelta

import pyotp
import structlog
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import transaction

from identity.models import Invitation, RecoveryCode, SecondFactor, SecondFactorRequirement
from identity.policy.second_factors import (
    CODE_DIGITS,
    RECOVERY_CODE_BYTES,
    RECOVERY_CODES,
    STEP_SECONDS,
    STEPS_AROUND,
)
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.encrypted_secrets import secret_decrypt, secret_encrypt
from identity.services.people import owner_check
from identity.services.tokens import secret_digest
from nousweb.lib import Conflict, Invalid, NotAllowed, NotFound, TooMany, clock, existing

log = structlog.get_logger(__name__)

PURPOSE = "second factor"


def second_factor_secret() -> str:
    """A new secret for an authenticator app, in the letters of base 32."""
    return pyotp.random_base32()


def second_factor_address(person: User, secret: str, issuer: str) -> str:
    """The content of the QR code for an authenticator app: `otpauth://…`, with the names of the account and the
    installation."""
    return pyotp.TOTP(secret).provisioning_uri(name=person.username, issuer_name=issuer)


@transaction.atomic
def second_factor_enrol(*, person: User, secret: str, code: str, by: Principal) -> list[str]:
    """Require codes of `secret` from this person from now on, of which `code` is one; returns the recovery codes.

    Raises Conflict if there is a second factor already, Invalid for a wrong code, NotAllowed for another person's
    account.
    """
    _own_check(person, by)
    User.objects.select_for_update().get(pk=person.pk)
    if SecondFactor.objects.filter(person=person).exists():
        raise Conflict("You already have a second factor. Remove it first.")
    step = existing(
        _step_of(secret, code, after=0),
        Invalid("This is not the current code. Check the clock of your phone.", field="code"),
    )
    kept = secret_encrypt(secret, PURPOSE)
    factor = SecondFactor.objects.create(person=person, secret=kept, last_step=step, used_at=clock.now())
    codes = _codes_make(factor)
    audit_record(by=by, action="second_factor.enrol", target=person, agent=None)
    return codes


def second_factor_verify(*, person: User, code: str, by: Principal) -> None:
    """Accept a code of the app, or a recovery code, which is used up by it.

    Raises TooMany after NOUS_LOGIN_FAILURES wrong ones until NOUS_LOGIN_LOCK_MINUTES after the last, Invalid for a
    wrong or used one, NotFound for a person without a second factor.
    """
    # A refusal leaves the count of failures behind, so it is raised outside of the transaction.
    refusal = _verify(person, code.strip(), by)
    if refusal:
        raise refusal


@transaction.atomic
def _verify(person: User, code: str, by: Principal) -> Invalid | TooMany | None:
    factor = existing(
        SecondFactor.objects.select_for_update().filter(person=person).first(), "This account has no second factor."
    )
    now = clock.now()
    if wait := _lock_seconds(factor, now):
        return TooMany(f"Too many wrong codes. Try again in {wait // 60 + 1} minutes.", retry_after=wait)
    if _code_take(factor, code, by, now):
        factor.failures, factor.used_at = 0, now
        factor.save(update_fields=["failures", "used_at", "last_step"])
        return None
    _failure_count(factor, now)
    return Invalid("This code is wrong or was used before. Wait for the next code.", field="code")


def _code_take(factor: SecondFactor, code: str, by: Principal, now: datetime) -> bool:
    digits = code.replace(" ", "")
    if len(digits) == CODE_DIGITS and digits.isdecimal():
        try:
            secret = secret_decrypt(factor.secret, PURPOSE)
        except ValueError:
            # The installation has another secret than when it was set up: only recovery codes and owners help.
            log.warning("second_factor_unreadable", person=factor.person_id)
            return False
        step = _step_of(secret, digits, after=factor.last_step)
        factor.last_step = factor.last_step if step is None else step
        return step is not None
    unused = factor.recovery_codes.filter(used_at__isnull=True)
    if not unused.filter(digest=secret_digest("".join(filter(str.isalnum, code.lower())))).update(used_at=now):
        return False
    audit_record(
        by=by,
        action="second_factor.recover",
        target=factor.person,
        agent=None,
        message=f"Recovery codes left: {unused.count()}.",
    )
    return True


def _failure_count(factor: SecondFactor, now: datetime) -> None:
    span = timedelta(minutes=settings.LOGIN_LOCK_MINUTES)
    if factor.failed_at and factor.failed_at <= now - span:
        factor.failures = 0
    factor.failures, factor.failed_at = factor.failures + 1, now
    factor.save(update_fields=["failures", "failed_at"])
    if factor.failures == settings.LOGIN_FAILURES:
        audit_record(
            by=Principal.of_system("log-in", channel="console"),
            action="login.lock",
            target=factor.person,
            agent=None,
            after={"minutes": settings.LOGIN_LOCK_MINUTES},
            message="Too many wrong codes of the second factor, after the right password.",
        )


def _lock_seconds(factor: SecondFactor, now: datetime) -> int:
    if factor.failures < settings.LOGIN_FAILURES or factor.failed_at is None:
        return 0
    return max(0, int((factor.failed_at + timedelta(minutes=settings.LOGIN_LOCK_MINUTES) - now).total_seconds()))


@transaction.atomic
def second_factor_remove(*, person: User, by: Principal) -> None:
    """Ask this person for no code any more. Raises Conflict where their role requires one, NotFound, NotAllowed."""
    _own_check(person, by)
    if second_factor_required(person):
        raise Conflict("Your role requires a second factor. To change the app, ask an owner to reset it.")
    if not SecondFactor.objects.filter(person=person).delete()[0]:
        raise NotFound("You have no second factor.")
    audit_record(by=by, action="second_factor.remove", target=person, agent=None)


@transaction.atomic
def second_factor_reset(*, person: User, by: Principal) -> None:
    """Delete the second factor of a person who lost it; for owners and the command line. Raises NotFound,
    NotAllowed."""
    if by.kind != "system":
        owner_check(by)
    if not SecondFactor.objects.filter(person=person).delete()[0]:
        raise NotFound(f"{person.username} has no second factor.")
    audit_record(by=by, action="second_factor.reset", target=person, agent=None)


@transaction.atomic
def recovery_codes_renew(*, person: User, by: Principal) -> list[str]:
    """New recovery codes instead of all there were, used or not. Raises NotFound, NotAllowed."""
    _own_check(person, by)
    factor = existing(
        SecondFactor.objects.select_for_update().filter(person=person).first(), "You have no second factor."
    )
    factor.recovery_codes.all().delete()
    codes = _codes_make(factor)
    audit_record(by=by, action="second_factor.renew", target=person, agent=None)
    return codes


@transaction.atomic
def second_factor_requirements_set(*, roles: set[str], by: Principal) -> None:
    """Require a second factor of these roles and of no others. Raises Invalid for a role that there is not, NotAllowed.

    Whoever has none is asked to set it up before anything else, so this locks nobody out.
    """
    owner_check(by)
    known = {Invitation.OWNER, *Group.objects.values_list("name", flat=True)}
    if unknown := roles - known:
        raise Invalid(f"There is no role {min(unknown)[:60]!r}.", field="roles")
    held = {requirement.role: requirement for requirement in SecondFactorRequirement.objects.select_for_update()}
    for role in sorted(roles - held.keys()):
        made, new = SecondFactorRequirement.objects.get_or_create(role=role)
        if new:
            audit_record(by=by, action="second_factor.require", target=made, agent=None)
    for role in sorted(held.keys() - roles):
        audit_record(by=by, action="second_factor.waive", target=held[role], agent=None)
        held[role].delete()


def second_factor_required(person: User) -> bool:
    """Whether a role of this person requires a second factor."""
    roles = {Invitation.OWNER} if person.is_superuser else set(person.groups.values_list("name", flat=True))
    return SecondFactorRequirement.objects.filter(role__in=roles).exists()


def second_factor_roles() -> list[str]:
    """The roles that require a second factor."""
    return list(SecondFactorRequirement.objects.values_list("role", flat=True))


def recovery_codes_left(person: User) -> int:
    return RecoveryCode.objects.filter(factor__person=person, used_at__isnull=True).count()


def _own_check(person: User, by: Principal) -> None:
    if by.user is None or by.user.pk != person.pk:
        raise NotAllowed("You can manage only your own second factor. An owner can reset another person's.")


def _step_of(secret: str, code: str, *, after: int) -> int | None:
    """The time step of which `code` is the code, among those around the present one and later than `after`."""
    totp = pyotp.TOTP(secret, digits=CODE_DIGITS, interval=STEP_SECONDS)
    present = int(clock.now().timestamp()) // STEP_SECONDS
    around = range(max(present - STEPS_AROUND, after + 1), present + STEPS_AROUND + 1)
    wanted = code.replace(" ", "")
    return next((step for step in around if secrets.compare_digest(totp.generate_otp(step), wanted)), None)


def _codes_make(factor: SecondFactor) -> list[str]:
    codes = [base64.b32encode(secrets.token_bytes(RECOVERY_CODE_BYTES)).decode().lower() for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.bulk_create(RecoveryCode(factor=factor, digest=secret_digest(code)) for code in codes)
    return ["-".join(code[start : start + 4] for start in range(0, len(code), 4)) for code in codes]
