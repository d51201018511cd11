"""Fixtures: people, agents, their tokens, and clients for each of them.

Alice is a viewer, Bob also reviews, Charlie also administers. Ada and Bruno are agents.
"""

import fcntl
import gc
import os
import threading
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ServerHandler
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase, client, override_settings
from django.test.client import ClientHandler
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from identity.models import Agent, ApiToken
from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS
from identity.principal import Principal
from identity.registrations import new_agent_config
from identity.services.agents import agent_create
from identity.services.tokens import token_create, token_revoke
from memory.policy import oversight
from nousweb.database.distribute import distribute
from nousweb.lib.distribution import is_distributed
from tests.baseline import Baseline
from tests.browser import chromium  # noqa: F401  (a fixture)
from tests.cluster import CITUS_URL, SHARDS
from tests.database import product_rights
from tests.embeddings import batches_run_once, questions_forgotten
from tests.factories import make_person, make_principal, make_token
from tests.http import ApiClient

# The same examples on every run: a suite that fails by chance teaches people to run it again.
hypothesis.settings.register_profile("nous", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("nous")


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, whose duration grows with the number of objects.

    The few megabytes of garbage among them stay: to look for it takes half a second.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _cheap_passwords_and_static_folder() -> Iterator[None]:
    # WhiteNoise warns of a missing folder, and warnings are errors here.
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(autouse=True)
def _settings_are_taken_back() -> Iterator[None]:
    """Overrides of settings are undone in reverse order: otherwise one of them would stay for all following tests."""
    before = settings._wrapped
    yield
    after, settings._wrapped = settings._wrapped, before
    assert after is before, "This test leaves settings behind: it undoes an override before one that came later."


@pytest.fixture(autouse=True)
def _threads_of_a_worker_have_ended() -> Iterator[None]:
    """The threads that begin with a worker's process do not go on beside the next tests."""
    yield
    for thread in threading.enumerate():
        if thread.name in ("webhooks", "job-requeuer"):
            thread.join(10)
            assert not thread.is_alive(), f"This test leaves the thread {thread.name!r} behind."


@pytest.fixture(autouse=True, scope="session")
def _middleware_is_loaded_once(_cheap_passwords_and_static_folder: None) -> Iterator[None]:
    """Every test client has a handler of its own; its middleware is the same as long as the settings are, as in a
    process of the web server, and to load it takes as long as a small request."""
    usual, ordinary = settings._wrapped, ClientHandler.load_middleware
    loaded: dict[str, Any] = {}

    def once(self: ClientHandler, is_async: bool = False) -> None:
        if settings._wrapped is not usual:
            ordinary(self, is_async)
        elif loaded:
            vars(self).update(loaded)
        else:
            before = set(vars(self))
            # The first process of a run compresses the static files; others would do so at the same moment.
            with (Path(os.environ["TEST_RUN_FOLDER"]) / "compressing.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                ordinary(self, is_async)
            loaded.update({name: value for name, value in vars(self).items() if name not in before})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientHandler, "load_middleware", once)
        yield


@pytest.fixture(autouse=True, scope="session")
def _contexts_of_whole_pages_are_kept() -> Iterator[None]:
    """The test client copies the context of each template; of about a hundred per page the tests read only that of the
    page.

    Each copy refers to its original in a cycle, which only the garbage collector finds.
    """
    ordinary = client.store_rendered_templates

    def of_pages(store: Any, signal: Any, sender: Any, template: Any, context: Any, **more: Any) -> None:
        # Includes are rendered with the page's template bound; fields of forms are pages of their own to Django.
        if context.template is template and not str(template.name).startswith("django/forms/"):
            ordinary(store, signal, sender, template, context, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "store_rendered_templates", of_pages)
        yield


@pytest.fixture(autouse=True, scope="session")
def _product_serves_its_static_files() -> Iterator[None]:
    """The live server's own handler of static files would know none of the hashed names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticFilesHandler, "_should_handle", lambda self, path: False)
        yield


@pytest.fixture(autouse=True, scope="session")
def _live_server_keeps_its_connections() -> Iterator[None]:
    """As `serve` does. A connection for each request would know none of the tables yet, and learning them takes longer
    than most requests. A request has one to itself, not the thread, which waits for the browser's next."""
    idle: deque[BaseDatabaseWrapper] = deque()
    ordinary = ServerHandler.run

    def run(self: ServerHandler, application: Any) -> None:
        try:
            kept = idle.pop()
        except IndexError:
            kept = connections.create_connection(DEFAULT_DB_ALIAS)
            kept.settings_dict = {**kept.settings_dict, "CONN_MAX_AGE": None}
            kept.inc_thread_sharing()
        connections[DEFAULT_DB_ALIAS] = kept
        try:
            ordinary(self, application)
        finally:
            del connections[DEFAULT_DB_ALIAS]
            idle.append(kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerHandler, "run", run)
        yield


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_sampled_by_chance() -> Iterator[None]:
    """Ids of facts are random, and so are the few whose automatic decision opens a blind review."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oversight, "BLIND_SHARE", 0.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def _new_agents_ask_for_no_consent() -> Iterator[None]:
    """What tokens write is used at once; tests of the consent policy set the rules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(new_agent_config, "consent", None)
        patch.delitem(new_agent_config, "consent")
        yield


@pytest.fixture(autouse=True)
def _questions_of_other_tests_are_unknown() -> None:
    questions_forgotten()


@pytest.fixture(autouse=True, scope="session")
def _models_run_once_for_the_same() -> Iterator[None]:
    with batches_run_once():
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database with the product's rights, dropped at the end even if a browser still holds a connection."""
    with django_db_blocker.unblock():
        if CITUS_URL:
            connection.ensure_connection()
            distribute(connection.connection, shards=SHARDS)
            is_distributed.cache_clear()
        assert is_distributed() == bool(CITUS_URL)
    with django_db_blocker.unblock(), product_rights(), pytest.MonkeyPatch.context() as patch:
        baseline = Baseline()
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: baseline.restore())
        yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


@pytest.fixture(scope="module")
def module_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A transaction around a module's tests, in which its own fixtures make once what its tests begin with.

    What a test changes is undone after it all the same. Not for tests of real transactions.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def alice(db: None) -> User:
    """May look at everything but the tokens, and change nothing."""
    return make_person("alice", "Viewer")


@pytest.fixture
def bob(db: None) -> User:
    """May also propose, approve, reject, roll back and undo."""
    return make_person("bob", "Reviewer")


@pytest.fixture
def charlie(db: None) -> User:
    """May also create agents and tokens, and seed identities again."""
    return make_person("charlie", "Administrator")


@pytest.fixture
def system() -> Principal:
    return Principal.of_system("tests")


@pytest.fixture
def reviewer(bob: User) -> Principal:
    """Bob, as services see him."""
    return Principal.of_user(bob)


@pytest.fixture
def ada(db: None, system: Principal) -> Agent:
    """An agent with a first character and boundaries."""
    return agent_create(slug="ada", name="Ada", kind="knight", prompt="You are Ada, calm and exact.", by=system)


@pytest.fixture
def bruno(db: None, system: Principal) -> Agent:
    """Another agent, of which Ada must learn nothing."""
    return agent_create(slug="bruno", name="Bruno", prompt="You are Bruno, quick and loud.", by=system)


@pytest.fixture
def actor(ada: Agent, system: Principal) -> Principal:
    """Ada herself, as services see her."""
    return make_principal(ada)


@pytest.fixture
def actor_token(ada: Agent, system: Principal) -> str:
    """Secret of Ada's actor token with the default scopes."""
    return make_token(ada)


@pytest.fixture
def subconscious_token(ada: Agent, system: Principal) -> str:
    """Secret of the token of Ada's subconscious."""
    return make_token(ada, "subconscious")


@pytest.fixture
def all_scopes_token(ada: Agent, system: Principal) -> str:
    """Secret of an actor token of Ada's that holds every scope there is."""
    return make_token(ada, name="everything", scopes=list(SCOPE_PERMISSIONS))


@pytest.fixture
def other_token(bruno: Agent, system: Principal) -> str:
    """Secret of Bruno's actor token."""
    return make_token(bruno, name="other")


@pytest.fixture
def revoked_token(ada: Agent, system: Principal) -> str:
    """Secret of a token of Ada's that was revoked."""
    token, secret = token_create(agent=ada, persona="actor", name="revoked", scopes=DEFAULT_SCOPES, by=system)
    token_revoke(token=token, by=system)
    return secret


@pytest.fixture
def expired_token(ada: Agent, system: Principal) -> str:
    """Secret of a token of Ada's whose time is over."""
    soon = timezone.now() + timedelta(hours=1)
    token, secret = token_create(agent=ada, persona="actor", name="expired", expires_at=soon, by=system)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    return secret


@pytest.fixture
def api(db: None) -> ApiClient:
    """The API as an anonymous caller; `.as_token(secret)` and `.as_person(user)` sign in."""
    return ApiClient()
