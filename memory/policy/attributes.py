"""Common attributes of people and things: how many values one has at a time, and what its values look like.

A name of several words is looked up whole, then by its last word ("monthly rent" is a rent), then by the words before
an "of" or "in".
"""

import enum
import re
from collections.abc import Mapping
from functools import lru_cache


class Cardinality(enum.StrEnum):
    """How many values of an attribute hold at a time."""

    ONE = "one"
    MANY = "many"
    UNKNOWN = ""


class ValueShape(enum.StrEnum):
    """What the value of an attribute looks like, so that "my manager is ill" names no manager.

    `name`: it has a capital letter or a sign that is no letter, or it names a team. `thing`: that, or "a", or a number.
    `number`: it has a number.
    """

    NAME = "name"
    THING = "thing"
    NUMBER = "number"
    ANY = "any"


_ONE = {
    ValueShape.NAME: """
        manager boss supervisor teamlead mentor coach captain ceo cto cfo coo cmo ciso president chairman
        chairperson chairwoman chair treasurer secretary director headmaster principal dean rector mayor
        governor minister premier chancellor king queen monarch ruler emperor pope bishop leader head lead
        founder owner landlord landlady tenant maintainer assignee reviewer approver contact responsible sponsor
        author writer composer performer singer lyricist creator inventor designer architect developer
        manufacturer producer publisher broadcaster distributor operator provider vendor supplier host employer
        company workplace doctor physician dentist gp therapist psychologist vet lawyer solicitor accountant
        adviser advisor broker nanny husband wife spouse partner fiance fiancee boyfriend girlfriend mother
        father successor predecessor namesake conductor drummer bassist goalkeeper striker trainer instructor
        tutor teacher class_teacher godfather godmother hairdresser barber midwife anaesthetist surgeon carer
        caregiver guardian driver courier carrier insurer bank airline isp label record_label city town hometown
        home home_city home_town residence capital capital_city country continent region state county province
        district nationality citizenship birthplace place_of_birth place_of_death headquarters headquarter
        head_office location venue club team league conference division school university college parent_company
        operating_system os cloud cloud_provider default_branch main_branch branch domain hostname registrar
        base_image namespace cluster parent mother_tongue native_language official_language first_language
        on-call on_call contact_person head_coach head_of_state head_of_government head_chef editor_in_chief
        account_manager product_owner scrum_master project_manager team_lead tech_lead engineering_manager
        line_manager emergency_contact original_broadcaster original_network religion alma_mater
    """,
    ValueShape.NUMBER: """
        age height weight size shoe_size waist temperature pulse heart_rate blood_sugar cholesterol bmi salary
        income wage pay rent mortgage budget price cost fee fare tariff premium deposit balance debt savings
        turnover revenue profit margin discount rate interest_rate tax_rate vat limit quota threshold timeout
        ttl latency interval frequency retention_period retention capacity throughput bandwidth concurrency port
        pin extension room_number flat_number house_number phone phone_number mobile_number telephone_number
        number_plate license_plate account_number customer_number order_number version release_version build
        score rating grade gpa rank headcount population area length width depth duration term notice_period
        deadline due_date date start_date end_date launch_date release_date expiry expiry_date expiration_date
        renewal_date birthday birth_date date_of_birth wedding_date anniversary start_time end_time opening_time
        closing_time departure arrival appointment_time dose dosage replica_count pool_size batch_size
        memory_limit disk_size ram postcode zip_code postal_code iban vat_number passport_number max_connections
        mileage word_count number count percentage quorum year half-life seat_count monthly_payment
    """,
    ValueShape.THING: """
        car vehicle bike phone laptop computer tablet editor ide browser shell terminal keyboard mouse monitor
        printer gym pharmacy supermarket flat apartment house office desk address email email_address e-mail
        username login password url website homepage repository database database_engine message_broker broker
        cache runtime framework orm build_tool package_manager linter formatter test_runner ci ci_system
        compiler language_version base_url endpoint time_zone timezone locale currency default_currency tracker
        issue_tracker chat_tool crm erp payment_provider identity_provider plan subscription tier edition
        licence license model engine primary_key default_model embedding_model job profession occupation career
        position title name nickname surname first_name last_name middle_name full_name display_name codename
        maiden_name species breed genre format file_format protocol encoding algorithm strategy method approach
        standard destination route hotel itinerary breakfast lunch dinner perfume instrument sport topic subject
        major thesis_topic motto slogan theme wallpaper ringtone avatar logo mascot storage_class backend
        frontend deployment_target schedule shift workload
    """,
    ValueShape.ANY: """
        status state stage phase condition mood diagnosis blood_pressure blood_type blood_group marital_status
        relationship_status employment_status health_status job_title role priority severity visibility level
        difficulty colour color hair_colour eye_colour gender pronouns diet sexual_orientation star_sign
        favourite_colour mode log_level access_level clearance availability outcome result verdict decision
        default default_value setting unit preferred_unit day weekday day_off season field field_of_work type
        kind category class sleep_schedule work_schedule working_hours opening_hours hours contract_type
        language
    """,
}
_MANY = """
        hobby interest friend colleague child kid son daughter brother sister sibling cousin aunt uncle niece
        nephew grandchild neighbour neighbor roommate flatmate pet cat dog rabbit bird fish skill goal aim dream
        ambition wish fear allergy intolerance symptom medication medicine habit tradition value strength
        weakness customer client user member employee player participant guest subscriber competitor feature
        dependency integration tag book film movie song album band dish food drink recipe snack game podcast
        series show newspaper problem issue bug risk concern reason advantage benefit drawback requirement rule
        exception example step task project product service tool qualification certificate degree award
        achievement trip holiday visit event meeting appointment memory photo idea suggestion question answer
        comment note observation experience activity ingredient part component element source reference work
        notable_work
    """
VOLATILE: Mapping[int, str] = {
    1: "mood temperature pulse heart_rate blood_sugar blood_pressure availability latency throughput queue",
    7: "status state stage phase condition health_status on-call on_call shift workload task balance",
    30: "location version release_version release build count headcount seat_count replica_count score project",
    365: "age",
}
"""Attributes whose value soon changes, by the days after which it is told with its day."""
_FAVOURITES = (
    "favourite",
    "favorite",
    "preferred",
    "default",
    "current",
    "primary",
    "main",
    "new",
    "present",
    "latest",
)
_LEADING = ("head", "chief", "lead")
"""Before the name of a role or a thing: it has one."""
ALIASES: Mapping[str, str] = {
    alias: name
    for name, aliases in {
        "home": "home_city home_town hometown residence place_of_residence city_of_residence",
        "time_zone": "timezone local_time_zone tz",
        "employer": "company workplace",
        "job_title": "job profession occupation position role job_position work_position position_at_work job_role",
        "spouse": "husband wife",
        "manager": "boss line_manager supervisor",
        "phone_number": "phone mobile_number telephone_number telephone mobile",
        "doctor": "physician gp",
        "headquarters": "head_office headquarter",
        "email": "email_address e-mail e-mail_address e_mail e_mail_address mail_address",
        "price": "cost",
        "birthday": "birth_date date_of_birth",
        "deadline": "due_date",
        "expiry": "expiry_date expiration_date end_date end",
        "implementation_language": "programming_language",
        "ceo": "chief_executive_officer chief_executive",
        "chair": "chairperson chairman chairwoman",
    }.items()
    for alias in aliases.split()
}
"""Other names of one attribute."""

_TABLE = {name: (Cardinality.ONE, shape) for shape, names in _ONE.items() for name in names.split()} | dict.fromkeys(
    _MANY.split(), (Cardinality.MANY, ValueShape.ANY)
)


_IDENTIFIERS = re.compile(r"[a-z]{2,}(?:[A-Z][a-z]*\d*)+|[A-Z][a-z]+(?:[A-Z][a-z]+\d*)+")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
_PARTS = re.compile(r"[\s_\u2010-\u2015-]+")
_ARTICLES = ("a", "an", "the")


@lru_cache(maxsize=4_096)
def attribute_words(name: str) -> tuple[str, ...]:
    """The words of a name as somebody wrote it ("jobTitle", "the Job-Title"): lower case, without an article."""
    text = name.strip()
    if _IDENTIFIERS.fullmatch(text):
        text = _HUMP.sub(" ", text)
    words = tuple(word for word in _PARTS.split(text.casefold()) if word)
    return words[1:] if len(words) > 1 and words[0] in _ARTICLES else words


@lru_cache(maxsize=4_096)
def attribute_named(words: tuple[str, ...]) -> str:
    """The name of an attribute in one form: lower case, `_` between words, aliases as what they mean."""
    name = "_".join(words)
    return ALIASES.get(name, name)


@lru_cache(maxsize=4_096)
def attribute_rule(name: str) -> tuple[Cardinality, ValueShape]:
    """Cardinality and shape of the values of an attribute of `attribute_named`; unknown ones name a thing."""
    name = name.lower()
    if name in _TABLE:
        return _TABLE[name]
    words = name.split("_")
    for joint in ("of", "in", "for"):
        if joint in words[1:]:
            words = words[: words.index(joint, 1)]
    for size in (3, 2, 1):
        if (tail := "_".join(words[-size:])) in _TABLE:
            cardinality, shape = _TABLE[tail]
            if cardinality is Cardinality.MANY and words[0] in _FAVOURITES:
                return Cardinality.ONE, ValueShape.THING
            return cardinality, shape
    if words[0] in _FAVOURITES:
        return Cardinality.ONE, ValueShape.THING
    if words[0] in _LEADING and len(words) > 1:
        return Cardinality.ONE, ValueShape.NAME
    return Cardinality.UNKNOWN, ValueShape.THING


@lru_cache(maxsize=4_096)
def volatile_days(name: str) -> int | None:
    """The days after which a value of an attribute of `attribute_named` is told with its day; None if it lasts."""
    words = name.lower().split("_")
    if words[0] == "number" and words[1:2] in ([], ["of"]):
        words = ["count"]
    words = words[: words.index("of", 1)] if "of" in words[1:] else words
    for tail in ("_".join(words[-size:]) for size in (3, 2, 1)):
        if days := next((days for days, names in VOLATILE.items() if tail in names.split()), None):
            return days
        if tail in _TABLE:
            return None
    return None


@lru_cache(maxsize=4_096)
def attribute_names(name: str) -> frozenset[str]:
    """A name of `attribute_named`, with its aliases."""
    return frozenset({name, *(alias for alias, meant in ALIASES.items() if meant == name)})


def attribute_spellings(name: str) -> set[str]:
    """The names of an attribute of `attribute_named`, as facts have them: in one and in many, with its aliases."""
    singulars = {" ".join(attribute_words(each)) for each in attribute_names(name)}
    return singulars | {plural(each) for each in singulars}


def plural(noun: str) -> str:
    """A regular plural."""
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


def known_words() -> frozenset[str]:
    """The words of all names in the table."""
    return frozenset(word for name in (*_TABLE, *ALIASES) for word in name.split("_"))


def attribute_known(name: str) -> bool:
    """Whether the table has this attribute, under its whole name."""
    return name in _TABLE or name in ALIASES
