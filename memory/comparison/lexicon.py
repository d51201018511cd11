"""What the comparison of facts knows of English, as data. Whatever is not listed here counts as a difference.

A synonym or a filler here can confirm a fact, so each must hold in every sentence; a missing one only asks a person.
"""


def words_of(text: str) -> list[str]:
    return text.split()


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    return dict(line.split("=") for line in text.split())


CONTRACTIONS = _pairs("""
    can't=can_not cannot=can_not won't=will_not shan't=shall_not ain't=is_not i'm=i_am it's=it_is he's=he_is
    she's=she_is that's=that_is there's=there_is here's=here_is what's=what_is who's=who_is let's=let_us
    they're=they_are we're=we_are you're=you_are i've=i_have they've=they_have we've=we_have you've=you_have
    i'll=i_will he'll=he_will she'll=she_will it'll=it_will they'll=they_will we'll=we_will you'll=you_will
    anymore=any_more
    """)

ARTICLES = frozenset({"a", "an", "the"})
FILLERS = frozenset({"please", "kindly", "currently", "presently", "indeed", "actually", "fyi"})
"""Say nothing of what is true."""
OPENINGS = (
    ("note", "that"),
    ("please", "note", "that"),
    ("remember", "that"),
    ("please", "remember", "that"),
    ("keep", "in", "mind", "that"),
    ("it", "is", "worth", "noting", "that"),
    ("for", "record"),
    ("for", "reference"),
)
TITLES = frozenset({"mr", "mrs", "ms", "dr", "prof", "st", "no", "vs", "inc", "ltd", "e.g", "i.e"})

NEGATIONS = words("""
    not never no none nobody nothing nowhere neither nor without cannot hardly barely rarely seldom except
    unless stop stopped fail failed refuse refused lack lacks cease ceased quit avoid avoids false untrue non
    longer
    """)
QUANTIFIERS = words("""
    all some any every each most many few several none both either half only always sometimes never usually
    often occasionally rarely seldom everyone everybody someone nobody everything something nothing least more
    less fewer exactly about approximately roughly almost nearly just mostly partly entirely fully multiple
    single at_most
    """)
MODALS = words("""
    will would can could may might must should shall plan plans planning planned intend intends want wants used
    going maybe perhaps possibly probably likely soon formerly previously once ago yet already still if unless
    when let today yesterday tomorrow tonight expect expects expected hope hopes need needs
    """)
COMPARATIVES = words("""
    more less fewer better worse faster slower larger smaller bigger higher lower older younger longer shorter
    earlier later greater cheaper newer most least best worst than above below over under
    """)
RELATIVE_TIMES = words("""
    today yesterday tomorrow tonight ago recently lately soon next last this_week this_month this_year upcoming
    just
    """)
PREPOSITIONS = words("""
    in on at by for from to with of into onto over under through during before after until till since between
    among about against via per as within without near behind across along around inside outside than toward
    towards like
    """)
CLAUSE_WORDS = words("""
    who whom whose which that and but or if because when while whenever unless although though so then where
    before after until since only except whether than , | ?
    """)
PRONOUNS = words("""
    i me my we us our you your he him his she her they them their it its this that these those
    """)
DIRECTIONS = words("""
    in on at by for from to with into onto over under before after until since between against via within near
    above below up down out off
    """)

_TO_TWENTY = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty
    """
_TENS = "thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: number for number, word in enumerate(words_of(_TO_TWENTY))} | {
    word: 10 * tens for tens, word in enumerate(words_of(_TENS), 3)
}
ORDINALS = _pairs("""
    1st=first 2nd=second 3rd=third 4th=fourth 5th=fifth 6th=sixth 7th=seventh 8th=eighth 9th=ninth 10th=tenth
    """)
SCALES = words("""
    hundred thousand million billion dozen
    """)
_MONTH_NAMES = """
    january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sep/sept october/oct
    november/nov december/dec
    """
MONTHS = {name: number for number, names in enumerate(words_of(_MONTH_NAMES), 1) for name in names.split("/")}
WEEKDAYS = words("""
    monday tuesday wednesday thursday friday saturday sunday
    """)

UNITS = {
    form: unit
    for unit, forms in {
        "%": "% percent",
        "ms": "ms millisecond milliseconds msec",
        "sec": "s sec secs second seconds",
        "min": "min mins minute minutes",
        "hour": "h hr hrs hour hours",
        "day": "day days",
        "week": "week weeks",
        "month": "month months",
        "year": "year years yrs",
        "km": "km kilometer kilometers kilometre kilometres",
        "mile": "mile miles mi",
        "meter": "meter meters metre metres",
        "cm": "cm centimeter centimeters centimetre centimetres",
        "kg": "kg kgs kilogram kilograms kilo kilos",
        "gram": "gram grams",
        "lb": "lb lbs",
        "mg": "mg milligram milligrams",
        "liter": "liter liters litre litres",
        "gb": "gb gigabyte gigabytes",
        "mb": "mb megabyte megabytes",
        "tb": "tb terabyte terabytes",
        "kb": "kb kilobyte kilobytes",
        "$": "$ dollar dollars",
        "€": "€ euro euros eur",
        "£": "£ gbp",
        "person": "person people",
        "time": "time times",
        "degree": "degree degrees",
    }.items()
    for form in forms.split()
}
"""Read as units after a number only."""

REGULAR_VERBS = words_of("""
    live reside work employ prefer like love hate enjoy use manage lead own walk talk cook play study learn
    teach need require want plan start finish launch deploy migrate move relocate switch change rename upgrade
    downgrade install configure enable disable increase decrease improve regress raise reduce expand shrink add
    remove create delete open close approve reject accept decline support block allow deny permit forbid report
    review merge release restart host serve store backup monitor maintain handle process call email visit travel
    marry divorce date hire fire join retire graduate attend order cost charge pay earn save invest cancel
    schedule postpone expect believe think say tell ask answer help assist train test build fix break fail pass
    crash depend rely include exclude contain follow sponsor fund acquire purchase sell buy rent drive ride fly
    swim run go come leave arrive return write read speak understand know see meet make take give get keep hold
    send receive drink eat sleep wear bring choose begin end win lose spend teach supervise mentor coach adopt
    avoid stop smoke contact design develop implement invent discover direct produce treat diagnose prescribe
    owe lend borrow replace succeed precede consist belong seem appear remain stay commute exercise volunteer
    utilize utilise commence cover limit expire renew sync replicate scale cache log alert page escalate rise
    fall grow gain resolve weigh become draw throw sit stand find
    """)
IRREGULAR_PASTS = {
    base: pasts
    for base, *pasts in (
        line.split()
        for line in """
        break broke broken
        build built
        buy bought
        sell sold
        drive drove driven
        ride rode ridden
        fly flew flown
        swim swam swum
        run ran
        go went gone
        come came
        leave left
        write wrote written
        speak spoke spoken
        understand understood
        know knew known
        see saw seen
        meet met
        make made
        take took taken
        give gave given
        get got gotten
        keep kept
        hold held
        send sent
        drink drank drunk
        eat ate eaten
        sleep slept
        wear wore worn
        bring brought
        choose chose chosen
        begin began begun
        win won
        lose lost
        spend spent
        teach taught
        think thought
        say said
        rise rose risen
        fall fell fallen
        grow grew grown
        become became
        draw drew drawn
        throw threw thrown
        sit sat
        stand stood
        find found
        tell told
        pay paid
        lead led
        lend lent
        """.strip().splitlines()
    )
}
SPEECH_VERBS = words("""
    say tell think believe want plan ask report know expect see
    """)

SYNONYMS = _pairs("""
    reside=live utilize=use utilise=use commence=start begin=start purchase=buy assist=help require=need
    physician=doctor automobile=car movie=film movies=films telephone=phone television=tv repo=repository
    repos=repositories db=database dbs=databases config=configuration postgres=postgresql k8s=kubernetes
    javascript=js typescript=ts prod=production coworker=colleague coworkers=colleagues attorney=lawyer
    kids=children kid=child sick=ill rapidly=quickly each=every photo=photograph photos=photographs colour=color
    colours=colors favourite=favorite centre=center grey=gray organisation=organization organise=organize
    behaviour=behavior licence=license programme=program travelled=traveled cancelled=canceled usa=united_states
    holland=netherlands nyc=new_york_city fridge=refrigerator veggie=vegetable upon=on till=until mum=mother
    mom=mother dad=father info=information docs=documentation ok=okay sysadmin=system_administrator
    weekly=every_week daily=every_day monthly=every_month yearly=every_year annually=every_year
    hourly=every_hour
    """)
"""Word to the one that it is read as; `_` stands between words."""

ANTONYMS = frozenset(
    frozenset(pair.split("/"))
    for pair in words_of("""
    increase/decrease increase/reduce raise/lower raise/reduce improve/regress improve/worsen improve/degrade
    like/dislike like/hate love/hate enjoy/hate enable/disable before/after above/below over/under start/stop
    start/finish start/end open/close opened/closed add/remove create/delete approve/reject accept/reject
    accept/decline allow/deny allow/forbid allow/block permit/forbid pass/fail success/failure win/lose buy/sell
    lend/borrow gain/lose open/resolve smoke/quit drive/sell rise/decline hire/fire join/leave arrive/leave
    arrive/depart install/uninstall upgrade/downgrade mount/unmount lock/unlock connect/disconnect expand/shrink
    grow/shrink rise/fall push/pull import/export upload/download send/receive true/false on/off up/down in/out
    inside/outside left/right north/south east/west hot/cold warm/cold high/low higher/lower fast/slow
    faster/slower large/small bigger/smaller more/less more/fewer most/least best/worst better/worse good/bad
    happy/unhappy happy/sad safe/unsafe secure/insecure stable/unstable valid/invalid public/private
    internal/external optional/required optional/mandatory possible/impossible legal/illegal active/inactive
    available/unavailable online/offline free/paid free/busy early/late earlier/later old/new old/young
    older/younger older/newer first/last minimum/maximum min/max always/never all/none everyone/nobody
    with/without include/exclude vegetarian/carnivore married/single married/divorced alive/dead present/absent
    morning/evening day/night light/dark celsius/fahrenheit tabs/spaces synchronous/asynchronous sync/async
    read/write horizontal/vertical ascending/descending encrypted/unencrypted manual/automatic
    manually/automatically support/oppose agree/disagree trust/distrust employed/unemployed permanent/temporary
    introvert/extrovert indoor/outdoor import/export sweet/savoury strict/lenient win/loss profit/loss
    positive/negative tolerate/allergic succeed/fail healthy/unhealthy healthy/sick
    """)
)

NEGATIVE_PREFIXES = ("un", "dis", "in", "im", "ir", "non", "de", "mis")

EXCLUSIVE_SETS = tuple(
    frozenset(words.split())
    for words in (
        "celsius fahrenheit kelvin",
        "tabs spaces",
        "light dark",
        "vegan vegetarian",
        "single married divorced widowed",
        "open closed",
        "active inactive",
        "enabled disabled",
        "approved rejected pending",
        "green yellow red amber",
        "on off",
        "monday tuesday wednesday thursday friday saturday sunday",
        "daily weekly monthly yearly",
        "tea coffee",
        "public private",
    )
)
"""Values of which one excludes the others. (Vegan and vegetarian: one says more, so neither is certain.)"""

ROLE_NOUNS = words("""
    manager boss owner lead leader head director ceo cto cfo founder author editor wife husband spouse partner
    mother father sister brother daughter son birthday name email address deadline status version price capital
    budget age mentor assistant successor predecessor maintainer sponsor landlord doctor lawyer accountant
    timezone
    """)
"""`the N of X` is read as `X's N` for these."""

REGIONS = words("""
    europe asia africa america oceania antarctica england scotland wales britain uk usa us germany france spain
    italy portugal netherlands belgium austria switzerland poland sweden norway denmark finland iceland ireland
    greece turkey russia ukraine romania hungary czechia slovakia slovenia croatia serbia bulgaria estonia
    latvia lithuania india china japan korea vietnam thailand indonesia malaysia philippines pakistan bangladesh
    nepal australia canada mexico brazil argentina chile peru colombia venezuela ecuador bolivia egypt morocco
    algeria tunisia kenya nigeria ghana ethiopia tanzania uganda israel iran iraq jordan lebanon syria qatar
    california texas florida washington oregon nevada arizona colorado utah ohio illinois michigan georgia
    virginia massachusetts pennsylvania minnesota bavaria tuscany catalonia brittany ontario quebec alberta
    queensland victoria singapore luxembourg monaco taiwan saxony hessen brandenburg provence andalusia lombardy
    sicily scandinavia brooklyn manhattan queens united_states states kingdom zealand arabia emirates jersey
    york carolina dakota hampshire
    """)
"""One place may lie in another: a region beside another place is never certain to be a change."""

NICKNAMES = tuple(
    frozenset(names.split("/"))
    for names in words_of("""
    bob/robert/rob/bobby/robbie bill/william/will/billy/liam liz/elizabeth/beth/eliza/betty/lisa
    mike/michael/mick kate/katherine/catherine/kathy/katie/cathy jim/james/jimmy/jamie tom/thomas/tommy
    dick/richard/rick/rich dave/david tony/anthony/antonio joe/joseph/jose chris/christopher/christian/christina
    alex/alexander/alexandra/sasha/sandra sam/samuel/samantha dan/daniel/danny ben/benjamin nick/nicholas
    steve/steven/stephen matt/matthew andy/andrew/drew greg/gregory jen/jennifer/jenny sue/susan/susanna
    meg/megan/margaret/peggy/maggie pat/patrick/patricia ed/edward/ted/eddie jack/john/johnny/jon/jonathan
    chuck/charles/charlie vicky/victoria peking/beijing bombay/mumbai saigon/hochiminh google/alphabet/youtube
    facebook/meta/instagram/whatsapp twitter/x postgres/postgresql/pg k8s/kubernetes aws/amazon/ec2/s3
    gcp/google azure/microsoft/github/linkedin python/cpython js/javascript/node/nodejs ts/typescript jdk/java
    linux/ubuntu/debian/fedora
    """)
)  # fmt: skip
"""Different names that may mean one person, place or thing."""
