"""The application as a WSGI server sees it."""

import contextlib
import os

import django
from django.conf import settings

from nousweb.middleware.static_files import client_archive_write
from nousweb.runtime.wsgi_handler import Handler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")

# Files are served from where they are, so nothing is collected here; WhiteNoise warns when it is missing.
settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
django.setup(set_prefix=False)
# A full disk is no reason not to serve.
with contextlib.suppress(OSError):
    client_archive_write()
application = Handler()
