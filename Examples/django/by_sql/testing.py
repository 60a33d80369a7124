# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
from django.apps import apps
from django.conf import settings
from django.db import connections, router
from django.test.runner import DiscoverRunner


class Runner(DiscoverRunner):
    """Gives the test database siwatch's tables, and plain tables in place of its views, so that a test can write states.

    On PostgreSQL the queues are siwatch's own, from the TEMPLATE, with every CHECK. The tables in place of the views are in `public`,
    which comes first in the search path. On SQLite the test database is empty and in memory, so the queues are plain tables, too.
    """

    VIEWS = ("grant_outcome", "revocation_outcome", "user_state", "app_client")

    def setup_databases(self, **options):
        made = super().setup_databases(**options)
        for model in apps.get_app_config("by_sql").get_models():
            connection = connections[router.db_for_write(model)]
            if connection.vendor == "sqlite" or model._meta.db_table in self.VIEWS:
                with connection.schema_editor() as editor:
                    editor.create_model(model)
        apps.get_model("by_sql.AppClient").objects.create(app=settings.SIWATCH_APP, client_id=settings.APPLE_CLIENT_ID)
        return made
