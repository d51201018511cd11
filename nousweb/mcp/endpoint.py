"""The address `/mcp`. What answers there is loaded with the first message: the types of the protocol take some ten
megabytes, and most web processes never need them."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt


@csrf_exempt
@login_not_required
def mcp(request: HttpRequest) -> HttpResponse:
    """As `nousweb.mcp.views.mcp`."""
    from nousweb.mcp import views

    return views.mcp(request)
