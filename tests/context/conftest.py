"""What tests of context share."""

import pytest

from identity.models import Agent
from identity.principal import Principal
from identity.services.agents import agent_create


@pytest.fixture
def ada(db: None, system: Principal) -> Agent:
    """A squire: the profile of her kind leaves out no kind of fact."""
    return agent_create(slug="ada", name="Ada", kind="squire", prompt="You are Ada, calm and exact.", by=system)
