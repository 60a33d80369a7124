# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
# ruff: noqa: F403, F405
"""The example that speaks to siwatch's tables: on PostgreSQL in the same database, on SQLite in siwatch's own file."""

from settings import *

INSTALLED_APPS += ["by_sql"]
ROOT_URLCONF = "by_sql.urls"
ENDS_SESSION = "by_sql.views.ends_session"
TEST_RUNNER = "by_sql.testing.Runner"

if os.environ.get("PGDATABASE"):
    # An administrator has run: GRANT siwatch_backend TO backend; ALTER ROLE backend SET search_path TO public, siwatch
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "HOST": os.environ.get("PGHOST", ""),
        "USER": os.environ.get("PGUSER", ""),
        # The test database begins as a copy of one in which `siwatch migrate` has made its tables.
        "TEST": {"TEMPLATE": os.environ.get("SIWATCH_TEMPLATE", "siwatch_template")},
    }
else:
    DATABASE_ROUTERS = ["by_sql.router.Router"]
    DATABASES["siwatch"] = {
        "ENGINE": "django.db.backends.sqlite3",
        # mode=rw: a mistyped path is an error, not a new file.
        "NAME": f"file:{os.environ.get('SIWATCH_FILE', '/var/lib/siwatch/siwatch.sqlite')}?mode=rw",
        "OPTIONS": {
            "timeout": 5,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON",
        },
    }
