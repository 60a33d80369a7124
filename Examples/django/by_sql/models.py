# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""siwatch's tables and views. siwatch makes them: Django does not migrate them.

A model of a queue has no field for a column with a default, because Django would insert NULL there.
"""

from django.conf import settings
from django.core import checks
from django.db import connections, models, router


class Grant(models.Model):
    """A sign-in. Insert only."""

    id = models.BigAutoField(primary_key=True)
    client_id = models.TextField()
    authorization_code = models.TextField()
    nonce = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = "grant_queue"


class Revocation(models.Model):
    """An account that its user has deleted. Insert only."""

    id = models.BigAutoField(primary_key=True)
    client_id = models.TextField()
    user_id = models.TextField()

    class Meta:
        managed = False
        db_table = "revocation_queue"


class GrantOutcome(models.Model):
    id = models.BigIntegerField(primary_key=True)
    user_id = models.TextField(null=True)
    outcome = models.TextField()
    reason = models.TextField(null=True)
    signed_in_at = models.BigIntegerField(null=True)

    class Meta:
        managed = False
        db_table = "grant_outcome"


class RevocationOutcome(models.Model):
    """A row for each token. Django wants a primary key: `id` is none here, so read lists, never `get()`."""

    id = models.BigIntegerField(primary_key=True)
    client_id = models.TextField()
    outcome = models.TextField()
    reason = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = "revocation_outcome"


class UserState(models.Model):
    pk = models.CompositePrimaryKey("app", "user_id")
    app = models.TextField()
    user_id = models.TextField()
    state = models.TextField()
    reason = models.TextField()
    changed_at = models.BigIntegerField(null=True)

    class Meta:
        managed = False
        db_table = "user_state"


class AppClient(models.Model):
    pk = models.CompositePrimaryKey("app", "client_id")
    app = models.TextField()
    client_id = models.TextField()

    class Meta:
        managed = False
        db_table = "app_client"


def keep_notification(body: bytes) -> None:
    """Keeps what Apple posted. Not by a model, because the column is text on SQLite and bytes on PostgreSQL."""
    connection = connections[router.db_for_write(Grant)]
    value = "CAST(%s AS TEXT)" if connection.vendor == "sqlite" else "%s"
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO notification_queue (payload) VALUES ({value})", [body])


@checks.register(checks.Tags.database)
def siwatch_knows_the_app(app_configs, databases, **kwargs):
    """`manage.py check --database siwatch`. A mistyped app has no users: no session would ever end, and nothing would say so."""
    if router.db_for_read(AppClient) not in (databases or []):
        return []
    if AppClient.objects.filter(app=settings.SIWATCH_APP, client_id=settings.APPLE_CLIENT_ID).exists():
        return []
    said = f"siwatch does not know the client {settings.APPLE_CLIENT_ID} of the app {settings.SIWATCH_APP}"
    return [checks.Error(said, hint="Compare SIWATCH_APP and APPLE_CLIENT_ID with siwatch.toml.", id="siwatch.E001")]
