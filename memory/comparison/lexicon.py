"""English word lists of the comparison of facts. Words that are not listed here count as differences.

A synonym or filler can confirm a fact, so each must hold in every sentence.
"""


def words(text: str) -> frozenset[str]:
    """The set of the blank-separated words of `text`."""
    return frozenset(text.split())


def mapping(text: str) -> dict[str, str]:
    """Parse `form/form=meaning` pairs into a dict from each form to its meaning."""
    pairs = [pair.split("=") for pair in text.split()]
    return {form: meaning for forms, meaning in pairs for form in forms.split("/")}


REWRITES = (
    (r"^\s*(please,?\s+)?(note|remember|keep in mind|it is worth noting)\s+that\b,?", ""),
    (r"^\s*for (the )?(record|reference)\b,?", ""), (r"\b(dr|mr|mrs|ms|prof|st)\.(?=\s)", r"\1"),
    (r"\s[-–—]{1,2}\s|—", " , "), (r"\b(?:can't|cannot|can not) stand\b", "dislike"),
    (r"\b(?:am|is|are) not (?:fond|a (?:big )?fan) of\b", "dislike"),
    (r"\b(?:am|is|are) (?:fond|a (?:big )?fan) of\b", "like"),
    (r"\bonce an? (day|week|month|year|hour)\b", r"every \1"),
    (r"\b(?:gave|has given|have given|given) up\b", "stopped"),
    (r"\bnoon\b", "12 pm"), (r"\bmidnight\b", "0:00"), (r"\bcan't|\bcannot\b", "can not"), (r"\bwon't\b", "will not"),
    (r"n't\b", " not"), (r"\blet's\b", "let us"), (r"\b(it|he|she|that|there|here|what|who)'s\b", r"\1 is"),
    (r"\b(i)'m\b", r"\1 am"), (r"(?<=\w)'re\b", " are"), (r"(?<=\w)'ve\b", " have"), (r"(?<=\w)'ll\b", " will"),
)  # fmt: skip
"""What is read otherwise before the words are: openings that say nothing, contractions, dashes, hours with a name."""
ARTICLES = words("a an the")
FILLERS = words("located please kindly currently presently indeed actually fyi")
NEGATIONS = words("""not never no none nobody nothing nowhere neither nor without cannot hardly barely rarely seldom
    except unless stop stopped fail failed refuse refused lack lacks cease ceased quit avoid avoids false untrue non
    longer nicht kein keine keinen nie ohne pas jamais sans nunca tampoco mai senza não niet geen ikke inte nie""")
QUANTIFIERS = words("""all some any every each most many few several none both either half only always sometimes never
    usually often occasionally rarely seldom everyone everybody someone nobody everything something nothing least more
    less fewer exactly about approximately roughly almost nearly just mostly partly entirely fully multiple single
    at_most""")
MODALS = words("""will would can could may might must should shall plan plans planning planned intend intends want wants
    used going maybe perhaps possibly probably likely soon formerly previously once ago yet already still if unless when
    let today yesterday tomorrow tonight expect expects expected hope hopes need needs""")
RELATIVE_TIMES = words("today yesterday tomorrow tonight ago recently lately soon next last upcoming just")
PREPOSITIONS = words("""in on at by for from to with of into onto over under through during before after until till
    since between among about against via per as within without near behind across along around inside outside than
    toward towards like""")
CLAUSE_WORDS = words("""who whom whose which that and but or if because when while whenever unless although though so
    then where before after until since only except whether than , | ?""")
REFINEMENTS = words("in on at for from with to as via near by before after since and because call+ed named")
PRIVATIVES = words("""former ex alleged supposed fake false semi quasi half deputy vice acting assistant honorary future
    potential substitute old previous original initial wrong other another second planned draft temporary""")
"""What begins words that say more about a statement; PRIVATIVES: what takes back the word behind it."""
RESTRICTIONS = (NEGATIONS | QUANTIFIERS | MODALS | PRIVATIVES | CLAUSE_WORDS) - REFINEMENTS - words(", need want")
PRONOUNS = words("i me my we us our you your he him his she her they them it its this that these those")
NUMBER_WORDS = mapping("""zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11
    twelve=12 thirteen=13 fourteen=14 fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20 thirty=30
    forty=40 fifty=50 sixty=60 seventy=70 eighty=80 ninety=90 dozen=12""")
MONTHS = mapping("""january/jan=01 february/feb=02 march/mar=03 april/apr=04 may=05 june/jun=06 july/jul=07
    august/aug=08 september/sept/sep=09 october/oct=10 november/nov=11 december/dec=12""")
UNITS = mapping("""%/percent=% ms/millisecond/milliseconds/msec=ms s/sec/secs/second/seconds=sec
    min/mins/minute/minutes=min h/hr/hrs/hour/hours=hour day/days=day week/weeks=week month/months=month
    year/years/yrs=year km/kilometers/kilometres=km mile/miles/mi=mile meter/meters/metres=meter cm=cm
    kg/kilogram/kilograms/kilos=kg gram/grams=gram lb/lbs=lb mg=mg liter/liters/litres=liter gb/gigabyte/gigabytes=gb
    mb/megabyte/megabytes=mb tb/terabyte/terabytes=tb kb/kilobyte/kilobytes=kb $/dollar/dollars=$ €/euro/euros/eur=€
    £/gbp=£ person/people=person time/times=time degree/degrees=degree""")
REGULAR_VERBS = words("""live reside work employ prefer like love hate enjoy use manage lead own walk talk cook play
    study learn teach need require want plan start finish launch deploy migrate move relocate switch change rename
    upgrade install configure enable disable increase decrease improve regress raise reduce expand add remove create
    delete open close approve reject accept decline support block allow deny permit forbid report review merge release
    restart host serve store backup monitor maintain handle process call visit travel marry date hire fire join retire
    attend order cost pay save cancel schedule expect believe think say tell ask answer help assist train test build fix
    break fail pass crash depend include exclude contain follow purchase sell buy rent drive fly swim run go come leave
    arrive return write read speak understand know see meet make take give get keep hold send receive drink eat sleep
    bring choose begin end win lose spend avoid stop smoke contact design owe lend borrow replace stay cover limit
    expire cache log page postpone delay promote repair divorce resign withdraw extend lower reopen fill collect watch
    export import invite measure show deliver rise fall grow gain resolve weigh become draw stand find ship""")
IRREGULAR_PASTS = mapping("""broke/broken=break built=build bought=buy sold=sell drove/driven=drive ran=run went/gone=go
    came=come left=leave wrote/written=write spoke/spoken=speak understood=understand knew/known=know saw/seen=see
    met=meet made=make took/taken=take gave/given=give got/gotten=get kept=keep held=hold sent=send drank/drunk=drink
    ate/eaten=eat brought=bring chose/chosen=choose began/begun=begin won=win lost=lose spent=spend taught=teach
    thought=think said=say rose/risen=rise fell/fallen=fall grew/grown=grow became=become stood=stand found=find
    told=tell paid=pay led=lead lent=lend withdrew/withdrawn=withdraw""")
SYNONYMS = mapping("""reside=live relocate=move utilize=use begin=start purchase=buy assist=help require=need
    physician=doctor automobile=car repo=repository db=database config=configuration postgres=postgresql k8s=kubernetes
    javascript=js typescript=ts prod=production coworker=colleague kids=children kid=child each=every colour=color
    favourite=favorite nyc=new_york_city till=until mum/mom=mother dad=father info=information docs=documentation
    weekly=every_week daily=every_day monthly=every_month anymore=any_more yearly/annually=every_year hourly=every_hour
    1st=first 2nd=second 3rd=third 4th=fourth 5th=fifth 6th=sixth 7th=seventh 8th=eighth 9th=ninth 10th=tenth""")
_OPPOSITES = words("""increase/decrease increase/reduce raise/lower improve/regress like/hate love/hate enjoy/hate
    enable/disable before/after above/below over/under start/stop start/finish start/end open/close add/remove
    create/delete approve/reject accept/reject allow/deny allow/forbid allow/block pass/fail win/lose buy/sell gain/lose
    open/resolve smoke/quit drive/sell rise/fall hire/fire join/leave push/pull send/receive true/false on/off up/down
    in/out left/right north/south east/west high/low higher/lower fast/slow faster/slower more/less most/least
    better/worse public/private online/offline old/new first/last always/never all/none everyone/nobody with/without
    include/exclude married/single married/divorced light/dark read/write win/loss tolerate/allergic succeed/fail""")
ANTONYMS = frozenset(frozenset(pair.split("/")) for pair in _OPPOSITES)
OPPOSITES = {
    word: frozenset().union(*(pair for pair in ANTONYMS if word in pair)) - {word} for pair in ANTONYMS for word in pair
}
REVERSED = mapping("""dislike/hate/loathe/detest=like forbid/deny/disallow/prohibit/ban/forbidden/block=allow
    disable/deactivate=enable without=with inactive=active offline=online exclude=include refuse/reject=accept off=on
    distrust=trust unsafe=safe impossible=possible""")
"""Words that deny, with what they deny."""
EXCLUSIVE_STATES = mapping("""celsius/fahrenheit/kelvin=scale tab/space=indent light/dark=theme high/low/normal=degree
    single/marry+ed/divorce+ed/widowed/engaged=family pass/fail=check open/close+ed/shut=state active/inactive=activity
    approve+ed/reject+ed/pending=review green/yellow/red/amber=light on/off=switch public/private/internal=access
    day/week/month/year/hour=rhythm true/false=truth fast/slow=speed faster/slower=speed short/long=length
    brief/detailed=detail formal/informal/casual=tone mandatory/optional/required=duty metric/imperial=units
    improve/regress/worsen=trend increase/decrease/reduce=trend raise/lower=trend better/worse=grade full/empty=fill
    vegetarian/vegan=diet before/after=order""")
"""Words of one group exclude each other where nothing else differs."""
EXCLUSIVE_VALUES = mapping("""celsius/fahrenheit/kelvin=scale tabs/spaces=indent light/dark=theme
    single/married/divorced/widowed=family open/closed=state active/inactive=activity enabled/disabled=setting
    approved/rejected/pending=review tea/coffee=drink green/yellow/red/amber=light on/off=switch public/private=access
    daily/weekly/monthly/yearly=rhythm monday/tuesday/wednesday/thursday/friday/saturday/sunday=weekday""")
REGIONS = words("""europe asia africa america england scotland wales britain uk usa us germany france spain italy
    portugal netherlands belgium austria switzerland poland sweden norway denmark finland iceland ireland greece turkey
    russia ukraine romania hungary india china japan korea vietnam indonesia australia canada mexico brazil argentina
    chile peru egypt tunisia israel iran california texas florida washington georgia ontario quebec singapore taiwan
    brooklyn manhattan united_states states kingdom zealand arabia york""")
"""One place may lie in another: a region beside another place is never certain to be a change."""
