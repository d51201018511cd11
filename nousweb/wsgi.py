"""The application as a WSGI server sees it."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from nousweb.database.limits import work_usual

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")

# Files are served from where they are, so nothing is collected here; WhiteNoise warns when it is missing.
settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)

# Threads that requests start are no command, which may take as long as it wants.
work_usual("form")
application = get_wsgi_application()
