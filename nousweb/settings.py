"""All settings, read from the environment. .env.example describes every variable."""

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import environ
import structlog
from django.core.exceptions import ImproperlyConfigured

from nousweb.lib.env import (
    BadSetting,
    amount,
    broker,
    flag,
    http_url,
    mail_url,
    one_of,
    read,
    shown_text,
    text_pairs,
    trace_url,
    whole,
    words,
)
from nousweb.lib.installation import RESOURCES, FileSecret, default_data_folder, former_secrets
from nousweb.monitoring.telemetry.exporter import signals_exported, signals_wanted

OPENAI_URL = "https://api.openai.com/v1"
try:
    PRODUCTION = read("NOUS_PRODUCTION", flag, False)
    DEBUG = read("NOUS_DEBUG", flag, False)
    DATA_DIR = read("NOUS_DATA_DIR", lambda raw: Path(raw).expanduser().resolve(), default_data_folder())
    HOST = read("NOUS_HOST", str, "127.0.0.1")
    PORT = read("NOUS_PORT", whole(1, 65535), 8000)
    SECRET_KEY = read("NOUS_SECRET_KEY", str, "") or FileSecret(DATA_DIR / "secret_key")
    SECRET_KEY_FALLBACKS: list[str] = read("NOUS_SECRET_KEY_FALLBACKS", words, [])
    if isinstance(SECRET_KEY, FileSecret):
        SECRET_KEY_FALLBACKS += former_secrets(DATA_DIR / "secret_key")
    ALLOWED_HOSTS = read("NOUS_ALLOWED_HOSTS", words, ["localhost", "127.0.0.1", "[::1]", HOST])
    CSRF_TRUSTED_ORIGINS: list[str] = read("NOUS_TRUSTED_ORIGINS", words, [])
    TRUST_PROXY = read("NOUS_TRUST_PROXY", flag, False)
    LOG_LEVEL = read("NOUS_LOG_LEVEL", one_of("DEBUG", "INFO", "WARNING", "ERROR"), "INFO")
    LOG_FORMAT = read("NOUS_LOG_FORMAT", one_of("console", "json"), "json" if PRODUCTION else "console")
    DB_KEEP_SECONDS = read("NOUS_DB_KEEP_SECONDS", whole(0, 24 * 3600), 0)
    DB_PREPARE = read("NOUS_DB_PREPARE", flag, True)
    WORKER_PROCESSES = read("NOUS_WORKER_PROCESSES", whole(1, 64), 1)

    IDENTITY_PROMPT = read("NOUS_IDENTITY_PROMPT", shown_text, "")
    FOUR_EYES = read("NOUS_FOUR_EYES", flag, False)
    PROPOSAL_EXPIRY_DAYS = read("NOUS_PROPOSAL_EXPIRY_DAYS", whole(1, 3650), 30)
    CONTEXT_RETENTION_DAYS = read("NOUS_CONTEXT_RETENTION_DAYS", whole(1, 3650), 30)
    USAGE_BOOST_PERCENT = read("NOUS_USAGE_BOOST", whole(0, 100), 0)
    CONTEXT_LOG_DURABLE = read("NOUS_CONTEXT_LOG_DURABLE", flag, True)
    LOOP_IDLE_MINUTES = read("NOUS_LOOP_IDLE_MINUTES", whole(1, 30 * 24 * 60), 30)
    LOGIN_FAILURES = read("NOUS_LOGIN_FAILURES", whole(1, 1000), 5)
    LOGIN_ADDRESS_FAILURES = read("NOUS_LOGIN_ADDRESS_FAILURES", whole(1, 100_000), 50)
    LOGIN_LOCK_MINUTES = read("NOUS_LOGIN_LOCK_MINUTES", whole(1, 24 * 60), 15)
    OIDC_ISSUER = read("NOUS_OIDC_ISSUER", http_url, "")
    OIDC_CLIENT_ID = read("NOUS_OIDC_CLIENT_ID", str, "")
    OIDC_CLIENT_SECRET = read("NOUS_OIDC_CLIENT_SECRET", str, "")
    OIDC_NAME = read("NOUS_OIDC_NAME", str, "single sign-on")
    OIDC_SCOPES = read("NOUS_OIDC_SCOPES", words, ["openid", "profile", "email"])
    OIDC_GROUPS_CLAIM = read("NOUS_OIDC_GROUPS_CLAIM", str, "groups")
    OIDC_ROLES: dict[str, str] = read("NOUS_OIDC_ROLES", text_pairs, {})
    OIDC_SESSION_HOURS = read("NOUS_OIDC_SESSION_HOURS", whole(1, 24 * 14), 12)
    PASSWORD_LOGIN = read("NOUS_PASSWORD_LOGIN", flag, True)
    DISK_FREE_MB = read("NOUS_DISK_FREE_MB", whole(0, 10**9), 200)
    METRICS_TOKEN = read("NOUS_METRICS_TOKEN", str, "")
    TRACE_URL = read("NOUS_TRACE_URL", trace_url, "")
    BROKER = read("NOUS_BROKER", broker, "orm")
    CHANGES_RETENTION_DAYS = read("NOUS_CHANGES_RETENTION_DAYS", whole(1, 3650), 30)
    SEALS_FILE = read("NOUS_SEALS_FILE", lambda raw: Path(raw).expanduser(), None)
    OAUTH_REGISTRATION = read("NOUS_OAUTH_REGISTRATION", flag, True)
    WEBHOOK_ALLOW_PRIVATE = read("NOUS_WEBHOOK_ALLOW_PRIVATE", flag, False)
    CHANGE_WAITERS = read("NOUS_CHANGES_WAITING", whole(0, 64), 4)
    REVIEW_EXPIRY_DAYS = read("NOUS_REVIEW_EXPIRY_DAYS", whole(1, 3650), 90)
    EMAIL_URL = read("NOUS_EMAIL_URL", mail_url, "")
    DEFAULT_FROM_EMAIL = read("NOUS_EMAIL_FROM", str, "Nous <nous@localhost>")
    PUBLIC_URL = read("NOUS_PUBLIC_URL", http_url, "")

    EMBEDDER = read("NOUS_EMBEDDER", one_of("local", "multilingual", "fastembed", "openai"), "local")
    EMBED_MODEL = read("NOUS_EMBED_MODEL", str, "")
    EMBED_BASE_URL = read("NOUS_EMBED_BASE_URL", str, OPENAI_URL)
    EMBED_API_KEY = read("NOUS_EMBED_API_KEY", str, "")
    EMBED_DIMENSION = read("NOUS_EMBED_DIMENSION", whole(0, 4000), 0)
    EMBED_TIMEOUT_SECONDS = read("NOUS_EMBED_TIMEOUT", whole(1, 300), 30)
    EMBED_THREADS = read("NOUS_EMBED_THREADS", whole(0, 64), 0)

    ANTHROPIC_API_KEY = read("NOUS_ANTHROPIC_API_KEY", str, "")
    OPENAI_API_KEY = read("NOUS_OPENAI_API_KEY", str, "")
    provider_of_key = "anthropic" if ANTHROPIC_API_KEY else "openai" if OPENAI_API_KEY else "none"
    JUDGE = read("NOUS_JUDGE", one_of("none", "anthropic", "openai"), provider_of_key)
    uses_openai = (provider_of_key if JUDGE == "none" else JUDGE) == "openai"
    JUDGE_MODEL = read("NOUS_JUDGE_MODEL", str, "" if uses_openai else "claude-sonnet-4-6")
    JUDGE_BASE_URL = read("NOUS_JUDGE_BASE_URL", http_url, OPENAI_URL if uses_openai else "https://api.anthropic.com")
    JUDGE_TIMEOUT_SECONDS = read("NOUS_JUDGE_TIMEOUT", whole(1, 60), 25)
    JUDGE_RETRIES = read("NOUS_JUDGE_RETRIES", whole(0, 5), 2)
    JUDGE_DAILY_TOKENS = read("NOUS_JUDGE_DAILY_TOKENS", whole(0, 10**9), 1_000_000)
    CHAT_MODEL = read("NOUS_CHAT_MODEL", str, JUDGE_MODEL)
    CHAT_PRICE_IN = read("NOUS_CHAT_PRICE_IN", amount, 0.0)
    CHAT_PRICE_OUT = read("NOUS_CHAT_PRICE_OUT", amount, 0.0)
    COUNTER = read("NOUS_COUNTER", one_of("estimate", "anthropic"), "estimate")
    COUNTER_MODEL = read("NOUS_COUNTER_MODEL", str, JUDGE_MODEL)
    COUNTER_TIMEOUT_SECONDS = read("NOUS_COUNTER_TIMEOUT", whole(1, 30), 5)

    DATABASES = {"default": environ.Env().db_url("DATABASE_URL", default="postgres:///nous")}
    # The role that owns and migrates the tables; without it, that of DATABASE_URL. See database/postgres_roles.py.
    DATABASE_OWNER = environ.Env().db_url("DATABASE_OWNER_URL") if read("DATABASE_OWNER_URL", str, "") else None
    DATABASE_REPLICA = environ.Env().db_url("DATABASE_REPLICA_URL") if read("DATABASE_REPLICA_URL", str, "") else None
    REPLICA_SECONDS = read("NOUS_REPLICA_SECONDS", whole(0, 3600), 5)
except BadSetting as error:
    raise ImproperlyConfigured(str(error)) from error

for is_wrong, why in (
    (
        "postgresql" not in str(DATABASES["default"]["ENGINE"]),
        "DATABASE_URL: expected a postgresql:// address; no other database is supported",
    ),
    (
        DATABASE_OWNER and "postgresql" not in str(DATABASE_OWNER["ENGINE"]),
        "DATABASE_OWNER_URL: expected a postgresql:// address",
    ),
    (
        DATABASE_REPLICA and "postgresql" not in str(DATABASE_REPLICA["ENGINE"]),
        "DATABASE_REPLICA_URL: expected a postgresql:// address",
    ),
    (
        JUDGE == "anthropic" and not ANTHROPIC_API_KEY,
        "NOUS_ANTHROPIC_API_KEY: needed when NOUS_JUDGE is anthropic",
    ),
    (
        uses_openai and find_spec("openai") is None,
        "NOUS_JUDGE: openai needs its package: install requirements/openai.lock",
    ),
    (uses_openai and not JUDGE_MODEL, "NOUS_JUDGE_MODEL: needed with openai, which has no default"),
    (
        uses_openai and JUDGE_BASE_URL == OPENAI_URL and not OPENAI_API_KEY,
        "NOUS_OPENAI_API_KEY: needed for OpenAI; NOUS_JUDGE_BASE_URL names another server",
    ),
    (
        COUNTER == "anthropic" and not ANTHROPIC_API_KEY,
        "NOUS_ANTHROPIC_API_KEY: needed when NOUS_COUNTER is anthropic",
    ),
    (EMAIL_URL and not PUBLIC_URL, "NOUS_PUBLIC_URL: needed with NOUS_EMAIL_URL, for the links in mails"),
    (
        OIDC_ISSUER and not (OIDC_CLIENT_ID and OIDC_ROLES),
        "NOUS_OIDC_ISSUER: needs NOUS_OIDC_CLIENT_ID and NOUS_OIDC_ROLES beside it",
    ),
    (
        not set(OIDC_ROLES.values()) <= {"Viewer", "Reviewer", "Administrator", "Owner"},
        "NOUS_OIDC_ROLES: the roles are Viewer, Reviewer, Administrator and Owner",
    ),
    (
        OIDC_ISSUER.startswith("http://") and PRODUCTION,
        "NOUS_OIDC_ISSUER: must be an https:// address when NOUS_PRODUCTION is on",
    ),
    (
        not PASSWORD_LOGIN and not OIDC_ISSUER,
        "NOUS_PASSWORD_LOGIN: can be off only when NOUS_OIDC_ISSUER is set",
    ),
    (PRODUCTION and DEBUG, "NOUS_DEBUG: must be off when NOUS_PRODUCTION is on"),
):
    if is_wrong:
        raise ImproperlyConfigured(why)

# The role of the running product, to which the owner grants what it needs.
DATABASE_ROLE = str(DATABASES["default"].get("USER") or "")
DATABASES["default"] |= {
    "ENGINE": "nousweb.database",
    "CONN_HEALTH_CHECKS": True,
    # Each thread of the web server keeps a connection of its own: taking turns at a pool costs more than it saves.
    "CONN_MAX_AGE": DB_KEEP_SECONDS,
    "OPTIONS": {
        # A server that is not there, or no longer answers, must not be waited for as long as TCP would.
        "connect_timeout": 5,
        "tcp_user_timeout": 30_000,
        "keepalives_idle": 30,
        **DATABASES["default"].get("OPTIONS", {}),
        # Only cursors of nousweb.lib.prepared_statements prepare; Django's own never do.
        "prepare_threshold": 1 if DB_PREPARE else None,
    },
}
if EMAIL_URL:
    globals().update(environ.Env.email_url_config(EMAIL_URL))
EMAIL_TIMEOUT = 10
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "nousweb.apps.NousWebConfig",
    "nousweb.console",
    "identity",
    "memory",
    "context",
    "nousweb.apps.ClosedAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "django_filters",
    "axes",
    "django_htmx",
    "django_q",
]

MIDDLEWARE = [
    "nousweb.middleware.request.RequestIdMiddleware",
    "nousweb.middleware.request.RequestMetricsMiddleware",
    "nousweb.middleware.request.StatementTimeoutMiddleware",
    "nousweb.middleware.request.ResponseHeadersMiddleware",
    "nousweb.middleware.request.MalformedRequestMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "nousweb.middleware.static_files.StaticFilesMiddleware",
    "nousweb.middleware.request.PageCompressionMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "nousweb.access.second_factor_step.SecondStepMiddleware",
    "nousweb.middleware.request.ConsoleLoginMiddleware",
    "nousweb.middleware.request.PrincipalMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "nousweb.console.common.past.past_links",
    "nousweb.middleware.request.DomainErrorMiddleware",
    "nousweb.access.second_factor_step.FreshCodeMiddleware",
    "axes.middleware.AxesMiddleware",
]

if DATABASE_REPLICA:
    MIDDLEWARE.append("nousweb.middleware.request.ReplicaReadsMiddleware")

TELEMETRY = signals_wanted()
if "traces" in signals_exported():
    MIDDLEWARE.insert(0, "nousweb.monitoring.telemetry.spans.TraceMiddleware")

ROOT_URLCONF = "nousweb.urls"
WSGI_APPLICATION = "nousweb.wsgi.application"
LOGIN_URL = "/login/"
SECOND_FACTOR_URL = "/account/second-factor/"
CONFIRM_URL = "/account/confirm/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

# The page of the API is found in its package: an installed app would be loaded, pydantic with it, by every command.
NINJA = Path(find_spec("ninja").origin).parent  # type: ignore[union-attr,arg-type]
FILE_LOADERS = [
    "nousweb.console.template_loader.Loader",
    "django.template.loaders.app_directories.Loader",
    ("django.template.loaders.filesystem.Loader", [NINJA / "templates"]),
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [RESOURCES / "templates"],
        "OPTIONS": {
            "builtins": [
                "django.templatetags.static",
                *(f"nousweb.console.templatetags.{name}" for name in ("visible", "console", "parts", "differences")),
            ],
            "loaders": [("django.template.loaders.cached.Loader", FILE_LOADERS)],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "nousweb.console.common.navigation.console",
            ],
        },
    }
]

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    # Where the background worker reports its state, for /readyz in another process.
    "heartbeat": {
        "BACKEND": "nousweb.monitoring.health.HeartbeatCache",
        "LOCATION": DATA_DIR / "heartbeat",
    },
}

STATIC_URL = "/static/"
STATICFILES_DIRS = [RESOURCES / "static", NINJA / "static"]
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "nousweb.middleware.static_files.HashedStaticFiles"},
}
WHITENOISE_USE_FINDERS = True
# Fonts have their version in their name: styles name them, and names in styles are not rewritten.
WHITENOISE_IMMUTABLE_FILE_TEST = r"/fonts/[^/]+\.woff2$"

AUTHENTICATION_BACKENDS = ["nousweb.access.log_in.LoginLock", "nousweb.access.log_in.PersonBackend"]
AXES_HANDLER = "nousweb.access.log_in.LoginGuard"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address"]
AXES_FAILURE_LIMIT = LOGIN_FAILURES
AXES_COOLOFF_TIME = timedelta(minutes=LOGIN_LOCK_MINUTES)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_CLIENT_IP_CALLABLE = "nousweb.lib.caller_identity.client_address"
AXES_USERNAME_CALLABLE = "nousweb.access.log_in.login_name"
AXES_LOCKOUT_CALLABLE = "nousweb.access.log_in.login_locked"
# The audit trail has what matters; the rest is personal data that nobody reads.
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "csrfmiddlewaretoken"]

# Of this package only the protocol is used: nousweb/access/provider_login.py decides who comes in, and with which role.
SOCIALACCOUNT_ADAPTER = "nousweb.access.provider_login.ProviderAdapter"
SOCIALACCOUNT_LOGIN_ON_GET = True
ACCOUNT_EMAIL_VERIFICATION = "none"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
if PRODUCTION:
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
if TRUST_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

Q_CLUSTER = {
    "name": "nous",
    # It hands the worker nothing but declared tasks.
    "broker_class": "nousweb.queue.CheckedBroker",
    "orm": "default",
    "workers": WORKER_PROCESSES,
    "timeout": 120,
    # At least three times the timeout, so that a task still running is never handed out again.
    "retry": 420,
    "max_attempts": 5,
    "catch_up": False,
    "poll": 1.0,
    "save_limit": 1000,
    "cache": "heartbeat",
    "label": "Background tasks",
}
if BROKER != "orm":
    if find_spec("redis") is None:
        raise ImproperlyConfigured("NOUS_BROKER: a Redis needs its package: install requirements/redis.lock")
    del Q_CLUSTER["orm"]
    # Writers of memories wait for it, so not for ever; the worker itself waits for a second at a time.
    Q_CLUSTER["redis"] = BROKER + ("&" if "?" in BROKER else "?") + "socket_connect_timeout=2&socket_timeout=5"

structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "structured": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer()
                if LOG_FORMAT == "json"
                else structlog.dev.ConsoleRenderer(colors=False),
            ],
            "foreign_pre_chain": [
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
        }
    },
    "filters": {
        "outages": {"()": "nousweb.database.outages.OutagesLogged"},
        "address_secrets": {"()": "nousweb.lib.log_secrets.AddressSecretsMasked"},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "structured", "filters": ["address_secrets"]}
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"level": LOG_LEVEL},
        # It tells of every start and stop of each of its processes.
        "django-q": {"level": "WARNING"},
        # It writes down what was typed as a name, which may have been a password.
        "axes": {"level": "ERROR"},
        # At lower levels they write what the judge is sent, which is memories, and a line for each request.
        "anthropic": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},
        # Refused requests are answered and counted; a line each would drown what matters.
        "django.request": {"level": "ERROR", "filters": ["outages"]},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}
