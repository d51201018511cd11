"""Words of the search in other languages: dictionaries, scripts without spaces, detection, changing it."""

import pytest
from django.db import connection

from identity.models import AuditEvent
from memory.models import SearchItem, SearchLanguage, SubjectAlias
from memory.search.languages import language_of
from memory.services.search_index.reembedding import languages_detect, words_reread
from tests.factories import make_events, make_fact, make_principal
from tests.http import browser

pytestmark = pytest.mark.django_db

GERMAN = (
    "Die Häuser am Fluss sind im Winter oft nass, und der Keller ist dann nicht zu gebrauchen.",
    "Wir haben gestern mit der Familie über die Reise nach Hamburg gesprochen, aber noch nichts gebucht.",
    "Meine Schwester hat einen Hund, der sehr laut ist, wenn es an der Tür klingelt.",
)
SPANISH = (
    "Mi hermana vive en una casa cerca del río y tiene un perro que es muy ruidoso cuando llega la gente.",
    "Ayer hablamos con la familia sobre el viaje a Sevilla, pero todavía no hemos comprado los billetes.",
    "La cocina está en la planta de arriba y no se puede usar durante el invierno porque hace mucho frío.",
)
ENGLISH = (
    "My sister lives in a house near the river and has a dog that is very loud when people come to the door.",
    "Yesterday we talked with the family about the trip to Leeds, but we have not bought the tickets yet.",
)
JAPANESE = "東京の事務所は三階にあります。会議は毎週水曜日の午後に行われます。コーヒーは飲みません。"
CHINESE = "我们的办公室在上海的三楼，会议在每个星期三的下午举行，她不喝咖啡，只喝绿茶。"


def terms(dictionary, text):
    with connection.cursor() as cursor:
        cursor.execute("SELECT tsvector_to_array(nous_terms(%s, %s))", [dictionary, text])
        return set(cursor.fetchone()[0])


def reads(agent):
    return set(SearchItem.objects.filter(agent=agent).values_list("dictionary", flat=True))


def put_language(api, charlie, code, **more):
    return api.as_person(charlie).put("/settings?agent=ada", {"language": code, **more})


@pytest.mark.parametrize(
    ("dictionary", "text", "found"),
    [
        ("english", "The cats were running", {"cat", "run"}),
        ("german", "Die Häuser", {"haus"}),
        ("simple", "Die Häuser", {"die", "häuser"}),
        ("arabic", "الكتب", {"كتب"}),
        ("simple", "東京都", {"東", "京", "都", "東京", "京都"}),
        ("english", "the 東京 office", {"東", "京", "東京", "offic"}),
        ("simple", "コーヒー", {"コー", "ーヒ", "ヒー"}),
        ("simple", "猫がいるのは", {"猫", "がい", "るの"}),
        ("simple", "何ですか", set()),
        ("simple", "서울에서", {"서울", "울에", "에서"}),
        ("simple", "ภาษา", {"ภาษ", "าษา"}),
        ("simple", "𠮷野家", {"𠮷", "野", "家", "𠮷野", "野家"}),
        ("simple", "", set()),
    ],
)
def test_words_by_dictionary_and_script(dictionary, text, found):
    assert terms(dictionary, text) == found


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (GERMAN, "de"),
        (SPANISH, "es"),
        (ENGLISH * 2, "en"),
        ((JAPANESE * 8,), "ja"),
        ((CHINESE * 8,), "zh"),
        (("В прошлом году мы были на море, и там было очень холодно, потому что шёл дождь. " * 4,), "ru"),
        (("ذهبنا إلى السوق في الصباح واشترينا الخبز والزيتون من صديق قديم. " * 6,), "ar"),
        (("วันนี้อากาศดีมากและเราไปเดินเล่นที่สวน" * 8,), "th"),
        (("우리는 어제 시장에 가서 사과를 샀습니다. " * 20,), "ko"),
        (("Short.",), ""),
        (("zq xv kw jj pq " * 40,), ""),
        ((), ""),
    ],
)
def test_language_is_detected(texts, code):
    assert language_of(list(texts)) == code


def test_language_of_an_agent_is_that_of_its_memories(api, actor_token, ada, actor):
    make_events(ada, actor, *GERMAN)
    assert api.as_token(actor_token).get("/index").json()["language"] == "en"
    assert languages_detect() == 1
    assert api.as_token(actor_token).get("/index").json()["language"] == "de"
    assert reads(ada) == {"english"}
    assert words_reread() == 3
    assert reads(ada) == {"german"}
    make_events(ada, actor, "Noch ein Satz.")
    assert reads(ada) == {"german"}
    found = api.as_token(actor_token).get("/recall", {"q": "Welches Haus?", "min_score": 0}).json()["items"]
    assert found[0]["content"] == GERMAN[0]
    assert found[0]["lexical"] > 0
    assert (languages_detect(), words_reread()) == (0, 0)


def test_language_is_looked_at_again_when_memory_has_doubled(ada, actor):
    make_events(ada, actor, *GERMAN)
    languages_detect()
    make_events(ada, actor, *SPANISH[:2])
    assert SearchLanguage.objects.get().looked_at == 3
    languages_detect()
    assert SearchLanguage.objects.get().looked_at == 3
    make_events(ada, actor, *(f"{text} {number}" for text in SPANISH for number in range(5)))
    assert languages_detect() == 1
    assert (SearchLanguage.objects.get().detected, SearchLanguage.objects.get().looked_at) == ("es", 20)


def test_subconscious_does_not_decide_the_language(ada, actor):
    make_events(ada, make_principal(ada, "subconscious"), *GERMAN, kind="subconscious_output")
    languages_detect()
    assert not SearchLanguage.objects.exclude(detected="").exists()


def test_people_set_the_language(api, charlie, actor_token, ada, actor):
    fact = make_fact(ada, "Anna mag alte Häuser.", actor, subject="Annas Freunde")
    assert put_language(api, charlie, "de", reason="They speak German.").json()["language"] == "de"
    assert AuditEvent.objects.get(action="agent.configure").after == {"language": "de"}
    words_reread()
    assert reads(ada) == {"german"}
    assert SubjectAlias.objects.get().dictionary == "german"
    make_events(ada, actor, *SPANISH)
    assert languages_detect() == 0
    index = api.as_token(actor_token).get("/index").json()
    assert index["language"] == "de"
    found = api.as_token(actor_token).get("/recall", {"q": "Haus", "min_score": 0, "type": "fact"}).json()["items"]
    assert (found[0]["id"], found[0]["lexical"]) == (str(fact.pk), 1.0)
    assert put_language(api, charlie, "").json()["language"] == ""
    assert languages_detect() == 1
    words_reread()
    assert reads(ada) == {"spanish"}
    restored = api.as_person(charlie).post("/settings/restore?agent=ada", {"version": 1})
    assert restored.json()["language"] == "de"
    words_reread()
    assert reads(ada) == {"german"}


def test_language_without_a_dictionary_is_read_as_it_is(api, charlie, ada, actor):
    make_events(ada, actor, "Running")
    for code in ("ja", "pl", "xx"):
        assert put_language(api, charlie, code).status_code == 200
        words_reread()
        assert reads(ada) == {"simple"}


def test_unknown_language_is_refused(api, charlie, actor_token, ada):
    refused = put_language(api, charlie, "tlh")
    assert refused.status_code == 422
    assert "language" in refused.content.decode()
    assert api.as_token(actor_token).put("/settings?agent=ada", {"language": "de"}).status_code in (401, 403)


def test_search_in_a_script_without_spaces(api, actor_token, ada, actor):
    make_events(ada, actor, "東京の事務所は三階にあります。", "猫の名前はタマです。", "会議は水曜日の午後です。")
    found = api.as_token(actor_token).get("/recall", {"q": "事務所はどこですか", "min_score": 0}).json()["items"]
    assert found[0]["content"] == "東京の事務所は三階にあります。"
    assert found[0]["lexical"] > found[1]["lexical"]


def test_settings_page_shows_and_changes_the_language(charlie, ada, actor):
    client = browser(charlie)
    make_events(ada, actor, *GERMAN)
    languages_detect()
    address = "/agents/ada/context/settings/"
    page = client.get(address).content.decode()
    assert "Detected: German" in page
    saved = client.post(address, {"base_version": 0, "language": "es", "reason": ""})
    assert saved.status_code == 302
    page = client.get(address).content.decode()
    assert "Detected: German" not in page
    assert '<option value="es" selected>Spanish</option>' in page
    assert client.post(address, {"base_version": 1, "language": "tlh"}).status_code == 422
