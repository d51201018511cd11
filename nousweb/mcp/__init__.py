"""The view of the address `/mcp`, which imports MCP at its first message."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST


@csrf_exempt
@login_not_required
@require_POST
def mcp(request: HttpRequest) -> HttpResponse:
    """Answer one message of the Model Context Protocol."""
    # The protocol's types of two versions take a fifth of a program's start, and few programs are ever asked for them.
    from nousweb.mcp.streamable_http import message_answer

    return message_answer(request)
