"""`nous`: the commands of an installed product, in the words of those who use it."""

import sys
from collections.abc import Sequence

from nousweb.runtime.command_line import main as manage

COMMANDS: dict[tuple[str, ...], tuple[tuple[str, ...], str]] = {
    ("demo",): (("serve", "--demo"), "serve a demo agent, whose logins and token are printed"),
    ("serve",): (("serve",), "serve the API and the console, and work in the background, until Ctrl-C"),
    ("agent", "create"): (("createagent",), "make an agent: nous agent create ada --name Ada"),
    ("token", "create"): (
        ("createtoken",),
        "make a token and print it: nous token create ada --persona actor",
    ),
    ("user", "create"): (("createsuperuser",), "make a person who may do everything"),
    ("second-factor", "reset"): (
        ("resetsecondfactor",),
        "reset the second factor of a person who lost it",
    ),
    ("import",): (("importagent",), "import an agent from a file that export wrote"),
    ("import", "memory"): (("importmemory",), "import from mem0, LangGraph, Letta, ChatGPT or Claude"),
    ("import", "conversation"): (("importconversation",), "import a conversation into an agent's log"),
    ("export",): (("exportagent",), "export an agent with all its memory"),
    ("mcp",): (("mcp",), "serve MCP over standard input, as the agent whose token is in NOUS_TOKEN"),
    ("secret",): (("secret",), "change the installation's secret: nous secret status says what to do"),
    ("backup",): (("backup",), "write a backup into a new folder: nous backup FOLDER"),
    ("restore",): (("restore",), "restore a backup into an empty database"),
    ("screen",): (("screen",), "screen stored memories again with the current rules"),
    ("doctor",): (("doctor",), "check this installation and say what to do"),
}
"""The words after `nous`, their management commands, and their descriptions."""

USAGE = "Usage: nous COMMAND …    (nous COMMAND --help says more)"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the typed command; a management command is known by its own name too."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    if not typed or typed[0] in ("-h", "--help", "help"):
        print(usage())  # noqa: T201
        return
    for words in sorted(COMMANDS, key=len, reverse=True):
        if tuple(typed[: len(words)]) == words:
            command, _ = COMMANDS[words]
            manage(["nous", *command, *typed[len(words) :]])
            return
    if any(words[0] == typed[0] for words in COMMANDS):
        sys.exit(f"nous: {typed[0]} needs one of these words:\n{usage()}")
    manage(["nous", *typed])


def usage() -> str:
    """The commands, a line each."""
    lines = [f"  {' '.join(words):<22}{purpose}" for words, (_, purpose) in COMMANDS.items()]
    return "\n".join([USAGE, "", *lines])
