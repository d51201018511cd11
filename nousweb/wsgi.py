"""The application as a WSGI server sees it."""

import os

import django
from django.conf import settings

from nousweb.database.limits import work_usual
from nousweb.utf8_request import Handler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")

# Files are served from where they are, so nothing is collected here; WhiteNoise warns when it is missing.
settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)

# Threads that requests start are no command, which may take as long as it wants.
work_usual("form")
django.setup(set_prefix=False)
application = Handler()
