# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
class Router:
    """Sends siwatch's models to siwatch's file, and lets no migration touch it."""

    def db_for_read(self, model, **hints):
        return "siwatch" if model._meta.app_label == "by_sql" else None

    db_for_write = db_for_read

    def allow_migrate(self, db, app_label, **hints):
        return (db == "siwatch") is (app_label == "by_sql")
