"""`doctor` names what is wrong and what to do, and goes on after a check that breaks."""

import io
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from django.core.management import call_command

from tests.factories import make_person

pytestmark = pytest.mark.django_db


def doctor():
    """What it prints, and its exit code."""
    out = io.StringIO()
    try:
        call_command("doctor", stdout=out)
    except SystemExit as end:
        return out.getvalue(), end.code
    return out.getvalue(), 0


def test_doctor_finds_nothing_wrong_with_a_working_installation(ada, settings, tmp_path):
    make_person("charlie", "Administrator")
    settings.DATA_DIR, settings.PORT = tmp_path, 1
    said, code = doctor()
    assert code == 0, said
    assert "ok     Migrations: all applied" in said
    assert "384 dimensions" in said
    assert "ok     Model: none" in said
    assert "ok     Agents: 1" in said
    assert "note   Web server: no answer" in said
    assert "Everything that is needed works." in said


def test_doctor_says_what_to_do(db, settings, tmp_path, monkeypatch):
    settings.DATA_DIR, settings.PORT = tmp_path / "missing", 1

    def away(name):
        raise RuntimeError("The model is away.")

    monkeypatch.setattr("nousweb.management.commands.doctor.embedder_named", away)
    said, code = doctor()
    assert code == 1
    assert "WRONG  Embedder: RuntimeError: The model is away." in said
    assert "WRONG  Disk of the data folder" in said
    assert "createagent" in said
    assert "2 wrong." in said


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ('{"data": [{"id": "llama3.1:8b"}]}', "ok     Model: llama3.1:8b at http://127.0.0.1:"),
        ('{"data": [{"id": "tiny"}]}', "is not in its list: tiny\n       Name one of these in NOUS_CHAT_MODEL"),
        (401, "answers 401\n       Check the key."),
        (404, "answers 404\n       Most addresses for NOUS_JUDGE_BASE_URL end in /v1."),
        (None, "no list of models (<urlopen error"),
    ],
)
def test_doctor_says_whether_a_model_of_ones_own_answers(db, settings, answer, told):
    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            self.wfile.write(str(answer).encode())

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        port = server.server_port if answer else 9
        settings.JUDGE, settings.PORT = "openai", 1
        settings.JUDGE_BASE_URL, settings.CHAT_MODEL = f"http://127.0.0.1:{port}/v1", "llama3.1:8b"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        said, _ = doctor()
        server.shutdown()
    assert told in said
