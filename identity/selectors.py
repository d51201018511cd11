"""Reads of identity that API and console share."""

from collections.abc import Iterable
from dataclasses import dataclass

from identity.models import Agent, IdentityVersion
from identity.principal import Principal
from identity.prompt import assemble_prompt
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.tokens import estimate_tokens


def agent_get(slug: str) -> Agent:
    """The agent called `slug`. Raises NotFound."""
    agent = Agent.objects.filter(slug=slug).first()
    if agent is None:
        raise NotFound(f"There is no agent {slug[:60]!r}.")
    return agent


def agent_for(principal: Principal, slug: str) -> Agent:
    """The agent that an API call is about: a token's own, or the one that a person names with `agent`."""
    if principal.token is not None:
        if slug and slug != principal.token.agent.slug:
            raise NotFound("No such agent.")
        return principal.token.agent
    if not slug:
        raise Invalid("Name the agent: ?agent=…", field="agent")
    return agent_get(slug)


@dataclass(frozen=True, slots=True)
class IdentityState:
    """An agent's identity as it stands: its current versions in prompt order, and the prompt they make."""

    agent: Agent
    versions: tuple[IdentityVersion, ...]
    prompt: str
    tokens: int

    @property
    def etag(self) -> str:
        """Validator of the whole: every section with its version, as an edit's base can be read from it."""
        return '"' + ",".join(f"{version.section}={version.version}" for version in self.versions) + '"'


def identity_state(agent: Agent, versions: Iterable[IdentityVersion] | None = None) -> IdentityState:
    """The current identity of `agent`, or the one made of `versions`."""
    if versions is None:
        versions = IdentityVersion.objects.current().filter(agent=agent).in_prompt_order()
    found = tuple(versions)
    prompt = assemble_prompt({version.section: version.content for version in found})
    return IdentityState(agent, found, prompt, estimate_tokens(prompt))


def version_get(agent: Agent, section: str, number: int) -> IdentityVersion:
    """One version of a section. Raises NotFound."""
    version = IdentityVersion.objects.filter(agent=agent, section=section, version=number).first()
    if version is None:
        raise NotFound(f"{section} has no version {number}.")
    return version
