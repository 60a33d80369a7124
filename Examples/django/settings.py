# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""The example that asks siwatch over HTTP. settings_sql is the one by SQL."""

import os
from pathlib import Path

SECRET_KEY = os.environ.get("SECRET_KEY", "of an example")
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "accounts.urls"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "accounts"]
AUTH_USER_MODEL = "accounts.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounts.middleware.EndedSessions",  # after the one that finds the user
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(os.environ.get("DATA", ".")) / "example.sqlite",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}

SIWATCH_URL = os.environ.get("SIWATCH_URL", "")
SIWATCH_TOKEN = os.environ.get("SIWATCH_TOKEN", "")
SIWATCH_WEBHOOK_SECRETS = os.environ.get("SIWATCH_WEBHOOK_SECRET", "").split()
SIWATCH_APP = os.environ.get("APP", "example")
APPLE_CLIENT_ID = os.environ.get("CLIENT_ID", "com.example.app")
