"""The application as a WSGI server sees it."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")

# Files are served from where they are, so nothing is collected here; WhiteNoise warns when it is missing.
settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)

application = get_wsgi_application()
