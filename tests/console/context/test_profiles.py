"""The pages of profiles: the difference comes before the saving."""

from context.models import ContextProfile
from tests.http import browser, markup

URL = "/context/profiles/"


def text(answer):
    return markup(answer)


def test_profiles_page_names_the_agents_of_each(ada, alice):
    page = text(browser(alice).get(URL))
    assert "squire_default" in page
    assert "Ada" in page


def test_profile_page_names_the_origin_of_each_value(ada, bob):
    client = browser(bob)
    client.post(f"{URL}squire_default/copy/", {"slug": "mine", "name": "Mine", "inherit": "on"})
    page = text(client.get(f"{URL}mine/"))
    assert "plan, reasoning, decision" in page
    assert f'href="{URL}squire_default/"' in page
    assert client.get(f"{URL}nobody/").status_code == 404


def test_profile_copy_has_no_base(db, bob):
    client = browser(bob)
    client.post(f"{URL}squire_default/copy/", {"slug": "mine", "name": "Mine"})
    mine = ContextProfile.objects.get(slug="mine")
    assert mine.base is None
    assert mine.versions.get().values["preserve_head"] == 4
    again = client.post(f"{URL}squire_default/copy/", {"slug": "mine", "name": "Mine"})
    assert again.status_code == 422
    assert "There is a profile" in text(again)


def test_profile_form_shows_the_difference_before_saving(db, bob):
    client = browser(bob)
    url = f"{URL}knight_default/edit/"
    first = client.get(url)
    filled = dict(first.context["form"].initial)
    filled |= {"preserve_head": "9", "base_version": "1", "reason": "More of the best."}
    looked = client.post(url, {**filled, "action": "look"})
    assert (looked.context["diff"].added, looked.context["diff"].removed) == (1, 1)
    assert ContextProfile.objects.get(slug="knight_default").versions.count() == 1
    assert client.post(url, {**filled, "action": "save"}).status_code == 302
    current = ContextProfile.objects.get(slug="knight_default").versions.get(is_current=True)
    assert (current.version, current.values["preserve_head"], current.reason) == (2, 9, "More of the best.")
    assert current.values["excluded_kinds"] == ["conversation", "summary", "preference"], "the rest is as it was"
    stale = client.post(url, {**filled, "preserve_head": "1", "action": "save"})
    assert stale.status_code == 409
    assert 'value="1"' in text(stale)
    history = text(client.get(f"{URL}knight_default/history/"))
    assert "More of the best." in history
    assert "Version 2" in history


def test_profile_form_empty_inherits_and_none_is_none(db, bob):
    client = browser(bob)
    client.post(f"{URL}knight_default/edit/", {"excluded_kinds": "none", "base_version": "1", "action": "save"})
    current = ContextProfile.objects.get(slug="knight_default").versions.get(is_current=True)
    assert current.values == {"excluded_kinds": []}
    wrong = client.post(f"{URL}knight_default/edit/", {"min_importance": "2", "layers": "x", "action": "look"})
    assert wrong.status_code == 422
    wrong = client.post(f"{URL}knight_default/edit/", {"layers": "x", "base_version": "2", "action": "save"})
    assert wrong.status_code == 422
    assert "“Raw layers” cannot be" in text(wrong)


def test_profile_of_an_agent_is_set_by_administrators(ada, bob, charlie):
    url = "/agents/ada/context/profile/"
    assert browser(bob).post(url, {"profile": "royalty_default"}).status_code == 403
    assert browser(charlie).post(url, {"profile": "royalty_default"}).status_code == 302
    ada.refresh_from_db()
    assert ada.config == {"profile": "royalty_default"}
    assert "There is no profile" in text(browser(charlie).post(url, {"profile": "x"}, follow=True))


def test_profiles_page_number_of_queries_is_constant(ada, alice, django_assert_num_queries):
    client = browser(alice)
    client.get(URL)
    for number in (0, 20):
        ContextProfile.objects.bulk_create(ContextProfile(slug=f"p{n}", name=f"P{n}") for n in range(number))
        with django_assert_num_queries(9):
            client.get(URL)
