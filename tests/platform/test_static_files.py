"""Static files by hashed names, and compressed answers."""

import gzip
import re

import pytest
from django.contrib.auth.models import User
from django.templatetags.static import static
from django.test import Client

from tests.http import browser

ACCEPTS = {"Accept-Encoding": "gzip, br"}


def test_hashed_name_is_kept_for_a_year_and_compressed(client: Client) -> None:
    address = static("css/components.css")
    assert re.fullmatch(r"/static/css/components\.[0-9a-f]{12}\.css", address)
    plain, packed = client.get(address), client.get(address, headers=ACCEPTS)
    for answer in (plain, packed):
        assert answer.status_code == 200
        assert answer["Cache-Control"] == "max-age=31536000, public, immutable"
        assert answer["Content-Type"] == "text/css; charset=utf-8"
        assert answer["Vary"] == "Accept-Encoding"
    assert packed["Content-Encoding"] == "gzip"
    small, whole = packed.getvalue(), plain.getvalue()
    assert gzip.decompress(small) == whole
    assert len(small) * 3 < len(whole)


def test_plain_name_is_asked_for_again_soon_and_a_wrong_digest_is_nothing(client: Client) -> None:
    assert client.get("/static/css/components.css")["Cache-Control"] == "max-age=60, public"
    assert client.get("/static/css/components.0123456789ab.css").status_code == 404


@pytest.mark.django_db
def test_every_file_of_a_page_has_a_hashed_name(bob: User) -> None:
    page = browser(bob).get("/").content.decode()
    files = re.findall(r'"(/static/[^"]+)"', page)
    assert len(files) > 10
    for file in files:
        answer = browser(bob).get(file)
        assert answer.status_code == 200
        assert re.search(r"\.[0-9a-f]{12}\.|/fonts/[\w-]+-\d+\.\d+\.\d+\.", file), file
        assert "immutable" in answer["Cache-Control"], file


@pytest.mark.django_db
def test_pages_are_compressed_to_sizes_that_tell_nothing(bob: User) -> None:
    client = browser(bob)
    answers = [client.get("/inbox/", headers=ACCEPTS) for _ in range(12)]
    assert {answer["Content-Encoding"] for answer in answers} == {"gzip"}
    assert len({len(answer.content) for answer in answers}) > 1, "padding differs, so that sizes tell nothing (BREACH)"
    tokens = {re.search(rb'x-csrftoken": "([^"]+)', gzip.decompress(answer.content))[1] for answer in answers}
    assert len(tokens) == len(answers), "the token is masked anew each time"


@pytest.mark.django_db
def test_answers_to_programs_are_not_compressed(client: Client) -> None:
    assert "Content-Encoding" not in client.get("/api/openapi.json", headers=ACCEPTS)
