"""Word lists of names of subjects. Entries of the first tables make two names equal, so each must be always right;
entries of the second part only open a review of whether two names mean the same."""

import re
from collections.abc import Mapping

USER = frozenset({"user", "the user", "this user", "my user", "me", "i", "myself"})
"""Keys that mean the user whom the agent serves."""
USER_MEANING = "user"
ARTICLES = frozenset({"a", "an", "the"})
MIN_JOINED_CHARACTERS = 4
"""In shorter names, dots are not removed: U.S. is not us."""


def words(text: str) -> frozenset[str]:
    """The set of the blank-separated words of `text`."""
    return frozenset(text.split())


def mapping(text: str) -> dict[str, str]:
    """Parse `form/form=meaning` pairs into a dict from each form to its meaning; `_` becomes a blank."""
    pairs = [pair.split("=") for pair in text.split()]
    return {form.replace("_", " "): meaning.replace("_", " ") for forms, meaning in pairs for form in forms.split("/")}


CERTAIN_WORDS: Mapping[str, str] = mapping("""k8s=kubernetes postgres=postgresql i18n=internationalization
    internationalisation=internationalization l10n=localization localisation=localization a11y=accessibility
    o11y=observability""")
"""Equal wherever the word occurs."""
CERTAIN_NAMES: Mapping[str, str] = mapping("""vscode/vs_code/microsoft_visual_studio_code=visual_studio_code
    aws=amazon_web_services gcp=google_cloud_platform nyc=new_york_city usa=united_states_of_america
    uk=united_kingdom""")
"""Equal if it is the whole name."""

# The following tables make no names equal; they only open reviews.

ABBREVIATIONS: Mapping[str, str] = mapping("""
    db/dbs=database databases=database repo=repository config/conf/cfg=configuration auth/authn=authentication
    authz=authorization prod/prd=production dev=development env=environment app=application svc/srv=service
    mgmt=management mgr=manager dept=department info=information admin=administrator doc/docs=documentation
    infra=infrastructure js=javascript ts=typescript py=python pg/psql=postgresql mongo=mongodb es=elasticsearch
    elastic=elasticsearch msg=message org=organization organisation=organization univ/uni=university
    gov/govt=government eng=engineering mktg=marketing acct=account stg=staging perf=performance lib=library
    img=image vid=video tel=telephone phone=telephone addr=address temp=temporary tmp=temporary max=maximum
    min=minimum avg=average num=number ref=reference spec=specification specs=specification calc=calculation
    cert=certificate certs=certificate conn=connection pwd=password passwd=password pkg=package proj=project
    qty=quantity rec=record reg=registration req=request res=resource sched=schedule sec=security
    sync=synchronization sys=system trans=transaction txn=transaction val=value ver=version vm=virtual_machine
    vpn=virtual_private_network st=street str=street rd=road ave=avenue blvd=boulevard mt=mount ft=fort
    sg=singapore sf=san_francisco la=los_angeles dc=washington_dc intl=international natl=national
    assoc=association bros=brothers dr=doctor prof=professor behaviour=behavior centre=center colour=color
    licence=license theatre=theater""")
"""How a word is written short, or elsewhere."""

GENERIC = words("""service system app application tool platform software product inc incorporated ltd limited gmbh ag
    corp corporation llc plc co company sa bv""")
"""Words at the end of a name that hardly make another thing of it. Team, project, server and the like do."""
TITLES = words("mr mrs ms miss dr doctor prof professor sir madam herr frau")
SMALL = words("of the a an and for & in")

_NICKNAMES = """
    abby=abigail al=albert/alan/alfred alex=alexander/alexandra/alexis alec=alexander andy=andrew/andreas
    angie=angela annie=ann/anna/anne art=arthur barb=barbara bart=bartholomew becky=rebecca becca=rebecca
    ben=benjamin bennie=benjamin bert=albert/robert/herbert beth=elizabeth betty=elizabeth betsy=elizabeth
    bill=william billy=william bob=robert bobby=robert brad=bradley cam=cameron cathy=catherine
    kathy=katherine/kathleen charlie=charles/charlotte chuck=charles
    chris=christopher/christian/christine/christina cindy=cynthia cliff=clifford connie=constance dan=daniel
    danny=daniel dave=david deb=deborah debbie=deborah dick=richard dom=dominic don=donald donnie=donald
    doug=douglas drew=andrew ed=edward/edwin/edgar eddie=edward eli=elijah eliza=elizabeth
    ellie=eleanor/elizabeth fran=frances/francis frank=francis/franklin fred=frederick/alfred
    freddie=frederick gabe=gabriel gene=eugene gerry=gerald/gerard jerry=gerald/jerome/jeremy greg=gregory
    gus=augustus hal=harold hank=henry harry=harold/henry hannah=johanna jack=john/jackson jake=jacob
    jan=janet jamie=james jay=jason jeff=jeffrey/geoffrey jen=jennifer jenny=jennifer jess=jessica/jesse
    jim=james jimmy=james jo=joanna/josephine joe=joseph joey=joseph johnny=john jon=jonathan josh=joshua
    judy=judith julie=julia kate=katherine/catherine/kathryn katie=katherine kat=katherine ken=kenneth
    kenny=kenneth kim=kimberly larry=lawrence/laurence len=leonard leo=leonard/leopold les=leslie/lester
    lew=lewis liam=william lib=elizabeth lisa=elizabeth liz=elizabeth lizzie=elizabeth lou=louis/louise
    lucy=lucille luke=lucas maggie=margaret mandy=amanda marge=margaret marty=martin mat=matthew matt=matthew
    max=maximilian/maxwell meg=margaret/megan mel=melanie/melvin/melissa mick=michael mickey=michael
    mike=michael millie=mildred/millicent mitch=mitchell molly=mary nan=nancy nancy=ann
    nat=nathan/nathaniel/natalie nate=nathan/nathaniel ned=edward nell=eleanor nick=nicholas/nicolas
    nicky=nicole/nicholas norm=norman ollie=oliver/olivia pam=pamela pat=patrick/patricia patty=patricia
    peg=margaret peggy=margaret pete=peter phil=philip/phillip polly=mary ray=raymond reg=reginald
    rich=richard rick=richard/frederick ricky=richard rob=robert robbie=robert robin=robert
    rod=rodney/roderick ron=ronald ronnie=ronald rosie=rose/rosemary russ=russell sally=sarah
    sam=samuel/samantha sammy=samuel sandy=alexander/sandra sue=susan/suzanne susie=susan seb=sebastian
    shelly=michelle sid=sidney simon=simeon stan=stanley steph=stephanie steve=steven/stephen stew=stewart
    stu=stuart/stewart tammy=tamara ted=theodore/edward teddy=theodore terry=terence/theresa tess=theresa
    theo=theodore tim=timothy timmy=timothy tina=christina toby=tobias tom=thomas tommy=thomas
    tony=anthony/antonio trish=patricia trudy=gertrude val=valerie/valentine vic=victor/victoria
    vicky=victoria vince=vincent walt=walter wes=wesley will=william willie=william zach=zachary zack=zachary
    basti=sebastian hans=johannes jule=julia kathi=katharina matze=matthias michi=michael sepp=josef
    uli=ulrich/ulrike wolfi=wolfgang lena=helena/magdalena tobi=tobias flo=florian pepe=jose paco=francisco
    nacho=ignacio chema=jose sasha=alexander/alexandra misha=mikhail dima=dmitri volodya=vladimir
    katya=ekaterina natasha=natalia"""
NICKNAMES: Mapping[str, frozenset[str]] = {
    nick: frozenset(full.split("/")) for nick, _, full in (pair.partition("=") for pair in _NICKNAMES.split())
}
"""What a first name may be short for."""
FULL_NAMES = frozenset(name for names in NICKNAMES.values() for name in names)
GIVEN_NAMES = (
    frozenset(NICKNAMES)
    | FULL_NAMES
    | words("""
    aaron adam adrian agnes aisha alan alice alicia alina amelia amir amy ana andrea anita anja anke anton ada
    bruno beatrice bernd bianca bianca bjorn boris brian bridget bruce carl carla carlos carmen carol caroline
    cecilia chen claire clara claudia colin craig daniela daria dariusz dean denise dennis derek diana diego
    dmitry dora dorothy eduardo elena elisa ella emil emily emma eric erik erika erin esther ethan eva evan eve
    felix fatima fernando fiona florence gabriela george georg gloria grace graham hana hannes harriet heather
    heidi helen helga henrik hugo ian ibrahim ida igor ines ingrid irene iris isaac isabel ivan ivy jana jane
    javier jean jens jesper joan joanne joel jonas jorge juan juliane julian julius june jurgen kai kara karen
    karin karl katrin keith kevin klaus kurt lars laura lauren lea leah lee leila leon lewis li lidia lily linda
    lionel lorenzo louis luca lucia luis luisa lukas lydia mara marc marcel marco marcus maria marie marina
    mario marion marius mark marta martha martina mary mateo matteo maya mei meier mia miguel mila miriam
    mohamed mohammed monica monika murat nadia naomi nicola nina noah noel nora norbert olga oscar otto pablo
    patrik paul paula pavel pedro petra philipp pia pierre priya quentin rachel rafael ralf ralph ramon raul
    regina rene rita robert roger roland roman rosa ross roy rudolf ruth ryan sabine sandra sara scott sean
    selma sergei sergio silvia simone sofia sonja sophie stefan stefanie sven sylvia tanja tara tatiana thea
    thomas thorsten tilda tobias tracy ursula uta uwe vera verena veronica viktor viola walter wanda wei wendy
    werner wilhelm xavier yara yasmin yuki yusuf yvonne zoe""")
)
ALSO_KNOWN_AS = re.compile(
    r"(?P<one>.{1,80}?)(?:'s (?:real |full |first |other )?name is|"
    r" (?:is|are) (?:also )?(?:called|named|known as|short for|an abbreviation (?:of|for)|another name for)|"
    r",? (?:also known as|a\.?k\.?a\.?|alias)| goes by| stands for)"
    r" (?P<other>.{1,80}?)(?:[.,;:!?]|$)",
    re.IGNORECASE,
)
"""Sentences that give a subject another name; they open a review of whether both are the same."""
